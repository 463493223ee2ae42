"""What the user wrote is found by its name; more of it in tests/curves/test_functions.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.training.recipe import load, open_recipe

MODULE = """
class Digits:
    def setup(self, config, worker): ...
    def step(self): ...
    def save(self): ...
    def load(self, state): ...

    class Small:
        pass

def train(config, worker, state):
    yield {}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_digits.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize("home", ["my_digits.py", "my_digits"])
def test_classes_and_functions_are_found(folder: Path, home: str) -> None:
    for name in ("Digits", "train"):
        user = load(f"{home}:{name}")
        assert getattr(user, "__name__", None) == name
        open_recipe(user, name=name)
    assert getattr(load(f"{home}:Digits.Small"), "__qualname__", None) == "Digits.Small"


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(
        JobError, match=r"there is no 'Digit'; callable there: Digits, train; did you mean 'Digits'"
    ):
        load("my_digits.py:Digit")
    with pytest.raises(JobError, match=r"there is no 'Digits.Large'"):
        load("my_digits.py:Digits.Large")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "import argparse; p = argparse.ArgumentParser(); p.add_argument('data'); p.parse_args(['--x'])",
            "2",
        ),
        ("import sys; sys.exit(0)", "0"),
    ],
)
def test_a_script_that_ends_the_process_when_it_is_imported_is_refused(
    line: str, code: str, tmp_path: Path
) -> None:
    """With a usage that is not elastune's, the command ended without another word, even as a success."""
    path = tmp_path / "script.py"
    path.write_text(f"def train(config): return 1\n{line}\n")
    with pytest.raises(JobError, match=rf"SystemExit\({code}\).* below if __name__ == \"__main__\":"):
        load(f"{path}:train")


def test_a_script_that_starts_a_search_when_it_is_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process that trains would import it, and start a search of its own."""
    (tmp_path / "noguard.py").write_text(
        "import elastune\ndef train(config):\n    return 1.0\n"
        "elastune.tune(train, space={'lr': {'float': [0.1, 1.0]}}, metric='acc', deadline='1m')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(
        JobError, match=r"noguard.py calls elastune.tune when it is imported, .* below if __name"
    ):
        load("noguard.py:train")
    assert not list(tmp_path.glob("elastune-runs*"))


def test_a_file_of_a_package_is_named_as_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pkg" / "inner"
    package.mkdir(parents=True)
    for each in (package, package.parent):
        (each / "__init__.py").touch()
    (package / "train.py").write_text("from ..consts import RATE\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(JobError, match="attempted relative import") as caught:
        load("pkg/inner/train.py:train")
    assert str(caught.value).endswith(f"trainable: pkg.inner.train:NAME, from the folder {tmp_path}")
