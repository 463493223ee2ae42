"""The page about the command line, from the command's own help: `python -m docs.tools.cli` writes it anew."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from elastune.cli.app import app

PAGE = Path(__file__).parents[1] / "reference" / "cli.md"
_HEAD = """# The command line

Everything that the `elastune` command takes, from its own help. As functions: [the Python API](api.md).

A *run* is named by its folder or journal, by the start of its id, or by `last`. `--runs-folder`, or the
variable `ELASTUNE_RUNS`, says where runs are kept. With `--json` output and errors are for programs.

| exit code | means |
|---:|---|
| 0 | done |
| 2 | wrong input: the message says what was seen, what was expected, and what to do |
| 3 | no plan keeps the limits; the message says what would fit |
| 4 | a run or its journal cannot go on, or all trials failed |
| 70 | a mistake of Elastune's own |
| 130 | interrupted by Ctrl-C; a real run rests and can be resumed |
"""


def write_page() -> str:
    """Commands in the order of `elastune --help`."""
    group: Any = typer.main.get_command(app)
    return "\n".join([_HEAD, *(line for name in group.commands for line in _command(group.commands[name]))])


def _command(command: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.opts == [each.name]]
    options = [each for each in command.params if each not in arguments]
    words = [each.name.upper() if each.required else f"[{each.name.upper()}]" for each in arguments]
    yield f"## elastune {command.name}\n"
    yield f"{inspect.cleandoc(command.help)}\n"
    yield f"```text\nelastune {command.name} {' '.join([*words, '[OPTIONS]'])}\n```\n"
    yield "| argument | meaning | default |\n|---|---|---|"
    for each in arguments:
        yield f"| `{each.name.upper()}` | {_cell(each.help)} | {_default(each)} |"
    for each in options:
        names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        yield f"| {names} | {_cell(each.help)} | {_default(each)} |"
    yield ""


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.default
    if value is None or value is False or not parameter.show_default:
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
