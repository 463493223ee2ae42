# `make demo`, `make plan` and `make test` need nothing but Python 3.11+ and make; each sets up `.venv` by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
comma  := ,

# The tests start some hundred processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs plan suite test test-all lint format clean help

help:
	@echo "make demo      tune a real network on a small cluster of local nodes, and draw what happened"
	@echo "make plan      plan a larger job and compare the planners"
	@echo "make docs      build the documentation site into site/"
	@echo "make test      lint, format check, types, import rules and the default test suite"
	@echo "make test-all  the same with the long campaigns"
	@echo "make format    let ruff format and fix what it can"

# A stamp is as old as its install; a change of the pins or of the package's metadata installs anew.
define install
	$(PYTHON) -c 'import sys; sys.exit("Elastune needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable '.[$(1)]'
	touch $(foreach stamp,$(2),$(VENV)/$(stamp))
endef

# What the demo needs; the developers' tools include it.
$(VENV)/.installed-demo: pyproject.toml constraints.txt
	$(call install,demo,.installed-demo)

$(VENV)/.installed: pyproject.toml constraints.txt
	$(call install,dev,.installed-demo .installed)

# Real processes on this machine for two minutes; they listen on loopback only, and none is left behind.
demo: $(VENV)/.installed-demo
	$(BIN)/elastune run examples/digits.yaml
	$(BIN)/elastune report last

plan: $(VENV)/.installed-demo
	$(BIN)/elastune plan examples/resnet101.yaml --compare

# Open site/index.html; nothing is fetched, not even fonts. The variable silences an advertisement of the theme.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The linters take one core for most of a minute; the tests, which often wait, share it meanwhile.
test: $(VENV)/.installed
	@$(MAKE) --no-print-directory --jobs 2 lint suite

suite: $(VENV)/.installed
	$(BIN)/pytest -n 4 --dist loadgroup -m "not slow"

# The frameworks of the adapters, most of which the default suite leaves out: a minute of installing.
$(VENV)/.installed-all: $(VENV)/.installed
	$(call install,adapters$(comma)dev,.installed-demo .installed .installed-all)

test-all: $(VENV)/.installed-all lint
	$(BIN)/pytest -n 2 --dist loadgroup --hypothesis-profile=explore

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache site
