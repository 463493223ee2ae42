"""Runs a page from top to bottom in one folder: files are written, jobs priced, code and commands run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.job.document import read_yaml
from elastune.job.job import Job
from tests.aws import models_read_once
from tests.cli.commands import Done
from tests.cli.commands import elastune as run_here
from tests.docs.commands import ROOT, check_names, shell_commands
from tests.docs.snippets import Mark, Page, Snippet, read_page
from tests.documents import Shown, as_in_a_page, make_young
from tests.waiting import PATIENCE_S

_COMMAND = re.compile(r"^\$ (?P<command>.+)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_PLAN = re.compile(r"^\$ elastune plan (examples/[\w-]+\.yaml)", re.MULTILINE)
_REAL = ("check", "run", "resume", "stop", "profile")
"""Commands with processes of their own."""
_PARSERS: dict[str, Callable[[str], object]] = {
    "": str,
    "json": json.loads,
    "text": str,
    "toml": tomllib.loads,
}
"""What is no more than read. Any other language has to be taught, or marked `skip: why`."""


def write_files_of(name: str) -> None:
    """The files that another page shows, for a page that goes on with them."""
    for each in read_page(ROOT / "docs" / name).pieces:
        if isinstance(each, Snippet) and each.file:
            Path(each.file).write_text(each.text, encoding="utf-8")


class PageRun:
    """`shown` gathers what the page says and what came."""

    def __init__(self, page: Page, folder: Path, *, slow: bool) -> None:
        self.page = page
        self.folder = folder
        self.slow = slow
        self.shown: list[Shown] = []
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._ids: dict[str, str] = {}
        self._printed: list[str] | None = None
        """By the Python right before."""
        shutil.copytree(ROOT / "examples", folder / "examples")

    def run(self) -> None:
        with (
            contextlib.chdir(self.folder),
            _importing_from(self.folder),
            without_aws(),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setenv("ELASTUNE_HOME", str(self.folder / ".home"))  # its own index of runs
            self._run_all()

    def _run_all(self) -> None:
        for piece in self.page.pieces:
            if isinstance(piece, Mark):
                self._setup(piece)
            elif piece.mark.kind != "skip" and (self.slow or not piece.is_slow):
                try:
                    self._run(piece)
                except Exception as error:
                    error.add_note(f"in {self.page.path}, line {piece.line}")
                    raise

    def _setup(self, mark: Mark) -> None:
        if mark.kind == "setup" or (mark.kind == "slow setup" and self.slow):
            exec(compile(mark.value, str(self.page.path), "exec"), self._names)

    def _run(self, snippet: Snippet) -> None:
        printed, self._printed = self._printed, None
        if snippet.file:
            (self.folder / snippet.file).write_text(snippet.text, encoding="utf-8")
        match snippet.language:
            case "yaml":
                self._price(snippet)
            case "python":
                self._printed = self._execute(snippet)
            case "text" if printed is not None and snippet.follows:
                self._compare(snippet, "python", snippet.text, printed, snippet.start)
            case "console":
                self._console(snippet)
            case "bash":
                for words in shell_commands(snippet.text):
                    self._command(words, snippet)
            case other:
                _PARSERS[other](snippet.text)

    def _price(self, snippet: Snippet) -> None:
        name = snippet.file or "snippet.yaml"
        if snippet.mark.kind == "part of":
            whole = (self.folder / snippet.mark.value).read_text(encoding="utf-8")
            keys = {**_mapping(whole), **_mapping(snippet.text)}
            make: Callable[[], Job] = lambda: Job.from_dict(keys)  # noqa: E731
        else:
            (self.folder / name).write_text(snippet.text, encoding="utf-8")
            make = lambda: elastune.load_job(name)  # noqa: E731
        job = make()
        if self._is_used_later(name, snippet) or self._is_planned_later(job, snippet):
            return
        if snippet.mark.kind == "infeasible":
            with pytest.raises(elastune.InfeasibleError):
                elastune.quote(job)
        elif job.is_measured:
            elastune.quote(job)

    def _is_used_later(self, name: str, snippet: Snippet) -> bool:
        """By a command or by code further down, which tell as much as a quote."""
        return any(name in each.text for each in self._run_after(snippet))

    def _is_planned_later(self, job: Job, snippet: Snippet) -> bool:
        """In an example of the same content, but for its name and where its trainable lies."""
        own = {"name": "", "trainable": ""}
        plans = (_PLAN.findall(each.text) for each in self._run_after(snippet))
        examples = {path for found in plans for path in found}
        return any(elastune.load_job(path).to_dict() | own == job.to_dict() | own for path in examples)

    def _run_after(self, snippet: Snippet) -> Iterator[Snippet]:
        later = (each for each in self.page.pieces if isinstance(each, Snippet) and each.line > snippet.line)
        runs = (each for each in later if each.mark.kind != "skip" and (self.slow or not each.is_slow))
        return (each for each in runs if each.language in ("bash", "console", "python"))

    def _execute(self, snippet: Snippet) -> list[str] | None:
        if snippet.file:  # is imported by what follows, or by a job
            compile(snippet.text, snippet.file, "exec")
            return None
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(snippet.text, f"{self.page.path.name}:{snippet.line}", "exec"), self._names)
        return as_in_a_page(out.getvalue(), self.folder, self._ids)

    def _console(self, snippet: Snippet) -> None:
        for found in _COMMAND.finditer(snippet.text):
            words = shlex.split(found["command"], comments=True)
            done = self._command(words, snippet)
            if done is None:
                continue
            output, start = found["output"], snippet.start + found.start("output")
            told = (done.stdout + done.stderr).replace(str(self.folder), "/home/me")
            printed = as_in_a_page(told, self.folder, self._ids)
            wrong = output.startswith("error:")
            assert bool(done.returncode) == wrong, f"{words} ended with {done.returncode}: {printed}"
            self._compare(snippet, shlex.join(words), output, printed, start)

    def _compare(self, snippet: Snippet, command: str, output: str, printed: list[str], start: int) -> None:
        shown = Shown(
            command=command,
            shown=output.rstrip("\n").splitlines(),
            printed=printed,
            start=start,
            end=start + len(output),
        )
        self.shown.append(shown)
        if output.strip() and snippet.is_compared and not self.slow:
            assert shown.shown == shown.fitted(), f"{command}; if it is right: python -m tests.docs PAGE"

    def _command(self, words: list[str], snippet: Snippet) -> Done | None:
        if words[0] == "python" and words[1].endswith(".py"):
            return _as_a_process(words[1:], self.folder)
        if words[0] != "elastune":
            check_names(words)
            return None
        if words[1] == "runs":
            make_young(self.folder / "elastune-runs")
        if snippet.is_slow or words[1] in _REAL:
            return _as_a_process(["-m", *words], self.folder)
        return run_here(*words[1:], cwd=self.folder)


def _mapping(text: str) -> dict[str, Any]:
    value = read_yaml(text, "page").value
    assert isinstance(value, dict)
    return value


@contextlib.contextmanager
def without_aws() -> Iterator[None]:
    """Pages are for people without an account: what they show must not depend on whose machine this is."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with models_read_once():
            yield


@contextlib.contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Code of a page imports what the page has written; the next page has files of the same name."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(f"{folder}/"):
                del sys.modules[name]


def _as_a_process(arguments: list[str], folder: Path) -> Done:
    """Ray stays connected to the process that started it."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env={**os.environ, "COLUMNS": "100"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    told = done.stderr if done.returncode else ""  # the rest of it is how the run stood now and then
    return Done(returncode=done.returncode, stdout=done.stdout, stderr=told)


def all_pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))
