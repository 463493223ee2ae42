"""Commands of other programs in a page are not run; what they name has to exist."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import typer

from elastune.cli.app import app

ROOT = Path(__file__).parents[2]
_FOREIGN = {"cd", "export", "mlflow", "ray", "source", "sqlite3", "tensorboard"}
_IN_PASSING = re.compile(r"`+(?:\$ )?(elastune (?:[a-z]+)(?: [^`]*)?)`")
_EXTRAS = re.compile(r"(?:elastune|\.)\[([\w,]+)\]")


def shell_commands(text: str) -> list[list[str]]:
    """The words of each command; `$ ` before it, comments and lines of output are left out."""
    lines = text.replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in line.removeprefix("$ ").split("&&")]
    return [words for part in parts if (words := shlex.split(part, comments=True))]


def check_names(words: list[str]) -> None:
    """Targets of make, modules of Python, extras of the package."""
    words = [word for n, word in enumerate(words) if n or "=" not in word]
    program = Path(words[0]).name
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), f"make has no target {words[1]}"
    elif program == "python" and words[1] == "-m":
        assert importlib.util.find_spec(words[2]) is not None, f"there is no module {words[2]}"
        _check_extras(words)
    elif program == "pip":
        _check_extras(words)
    else:
        assert program in _FOREIGN, f"{' '.join(words)}: not known; run it, or mark it `skip: why`"


def check_in_passing(text: str) -> int:
    """Commands within sentences, and extras anywhere: they name what exists. Returns how many there were."""
    commands = [" ".join(found.split()) for found in _IN_PASSING.findall(text)]
    for command in commands:
        _check_options(command)
    _check_extras([text])
    return len(commands)


@functools.cache
def _commands() -> Any:
    return typer.main.get_command(app)


def _check_options(command: str) -> None:
    group = _commands()
    name = command.split()[1]
    assert name in group.commands, f"{command}: no such command"
    found = group.commands[name]
    if hasattr(found, "commands"):  # a group, such as `elastune data`
        found = found.commands[command.split()[2]]
    known = {option for each in found.params for option in each.opts} | {"--help"}
    unknown = set(re.findall(r"(?<= )--[a-z-]+", command)) - known
    assert not unknown, f"{command}: no such option: {unknown}"


def _check_extras(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in words:
        for extras in _EXTRAS.findall(word):
            unknown = set(extras.split(",")) - set(project["optional-dependencies"])
            assert not unknown, f"{word}: no such extra: {unknown}"
