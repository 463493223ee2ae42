"""README and docs show what the program does."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tests.cli.commands import elastune
from tests.documents import run_page

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLANNING = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
SIMULATING = ROOT / "docs" / "simulating.md"
POLICIES = ROOT / "docs" / "policies.md"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run(command: list[str], folder: Path) -> list[str]:
    done = elastune(*command[1:], cwd=folder)
    return [line.rstrip() for line in (done.stdout + done.stderr).rstrip().splitlines()]


def test_make_plan_prints_what_the_page_about_planning_shows() -> None:
    block = next(each for each in blocks(PLANNING, "console") if each.startswith("$ make plan"))
    shown = block.rstrip().splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    command = re.search(r"\nplan:.*\n\t\$\(BIN\)/(.+)\n", makefile)
    assert command is not None
    assert run(command[1].split(), ROOT) == shown[1:]


@pytest.mark.parametrize("code", blocks(README, "python"))
def test_the_python_example_of_the_readme_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    patient = code.replace('deadline="1m"', 'deadline="30m"')  # on a busy machine Ray alone takes a minute
    assert patient != code
    with contextlib.redirect_stdout(printed):
        exec(compile(patient, "example", "exec"), {})
    assert printed.getvalue().strip()


@pytest.mark.slow
def test_the_page_about_policies_shows_what_happens(tmp_path: Path) -> None:
    """If the numbers have changed for a good reason: python -m tests.documents docs/policies.md"""
    commands = list(run_page(POLICIES, tmp_path))
    assert len(commands) == 2
    for each in commands:
        assert each.shown == each.fitted(), each.command


@pytest.mark.slow  # its commands are those of cli/test_simulate_command.py
def test_the_page_about_simulating_shows_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the numbers have changed for a good reason: python -m tests.documents docs/simulating.md"""
    commands = list(run_page(SIMULATING, tmp_path))
    assert len(commands) == 6
    for each in commands:
        assert each.shown == each.fitted(), each.command
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    code = blocks(SIMULATING.read_text(encoding="utf-8"), "python")[-1]
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {})
    assert len(printed.getvalue().splitlines()) == 3


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
