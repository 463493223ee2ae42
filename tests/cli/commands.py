"""Running the command line as a process would be, but inside this one: a process takes a second to start."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elastune.cli.app import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SYNTHETIC = EXAMPLES / "synthetic.yaml"
ASHA = EXAMPLES / "asha.yaml"
SMALL = Path(__file__).parent / "small.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def elastune(*arguments: str | Path, cwd: Path, columns: int = 100, **environment: str) -> Done:
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        contextlib.chdir(cwd),
        _environment({"COLUMNS": str(columns), **environment}),
        _arguments(["elastune", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Done(returncode=code if isinstance(code, int) else 0, stdout=out.getvalue(), stderr=err.getvalue())


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _arguments(argv: list[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = argv
    try:
        yield
    finally:
        sys.argv = before
