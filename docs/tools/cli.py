"""Writes the page about the command line from the help texts of the commands: `python -m docs.tools.cli`."""

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

All commands and options of `elastune`, generated from its help. As functions: [the Python API](api.md).

`RUN` is the folder or journal of a run, the start of its id, its name (the newest run of that name), or
`last`. It is searched for in the folder of runs first (`--runs-folder`, or the variable `ELASTUNE_RUNS`; else
`./elastune-runs`), then in the [index of your runs](../how-to/find.md), so that it is found from any
folder. With `--json`, output and errors are JSON.

| exit code | meaning |
|---:|---|
| 0 | success: the run was complete, reached its target or a limit, or was stopped by request |
| 2 | invalid input: the message states what was found, what was expected, and what to do |
| 3 | no plan keeps the limits; the message states what would fit |
| 4 | a [run failed](../running.md#how-a-run-ends), a journal cannot continue, or nodes are still running |
| 70 | a bug in Elastune |
| 130 | interrupted by Ctrl-C; a real run is suspended and can be resumed |
"""


def write_page() -> str:
    """Commands in the order of `elastune --help`."""
    group: Any = typer.main.get_command(app)
    return "\n".join([_HEAD, *(line for each in group.commands.values() for line in _lines(each))])


def _lines(command: Any, above: str = "") -> Iterator[str]:
    """Of a command, or of all in a group of commands."""
    if hasattr(command, "commands"):
        for each in command.commands.values():
            yield from _lines(each, f"{above}{command.name} ")
    else:
        yield from _command(command, f"{above}{command.name}")


def _command(command: Any, name: str) -> Iterator[str]:
    arguments = [each for each in command.params if each.opts == [each.name]]
    options = [each for each in command.params if each not in arguments and not each.hidden]
    words = [each.name.upper() if each.required else f"[{each.name.upper()}]" for each in arguments]
    yield f"## elastune {name}\n"
    yield f"{inspect.cleandoc(command.help)}\n"
    yield f"```text\nelastune {name} {' '.join([*words, '[OPTIONS]'])}\n```\n"
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
