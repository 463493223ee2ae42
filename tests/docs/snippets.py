"""What a page shows as code, and what its hidden marks say about it.

A mark is a comment `<!-- test: ... -->`. One that stands alone right before a fence is about that fence:

    skip: reason        it is not run
    slow: reason        it is run by `make test-all` only, and what it prints is not compared
    varies: reason      it is run, and what it prints is not compared
    infeasible: reason  a job that is meant to fit no plan
    part of job.yaml    some keys of a job; with them in place of its own, job.yaml is still a job

`setup` is code for Python in the comment itself, run where it stands; `slow setup` by `make test-all` only.
`by tests/x/test_page.py` says that the page has a test of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PIECE = re.compile(
    r"<!-- test: (?P<mark>.*?)-->"
    r"|^(?P<indent> *)```(?P<language>\w*)(?: (?P<file>[\w.-]+))?\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_REASONED = ("skip", "slow", "varies", "infeasible")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    kind: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A fence. `follows` tells that nothing but space lies between it and the fence before."""

    language: str
    file: str
    text: str
    mark: Mark
    line: int
    start: int
    follows: bool

    @property
    def is_slow(self) -> bool:
        return self.mark.kind == "slow"

    @property
    def is_compared(self) -> bool:
        return self.mark.kind not in ("slow", "varies")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    path: Path
    pieces: tuple[Snippet | Mark, ...]

    @property
    def own_tests(self) -> list[str]:
        return [each.value for each in self.pieces if isinstance(each, Mark) and each.kind == "by"]

    @property
    def has_slow_parts(self) -> bool:
        return any(isinstance(each, Snippet) and each.is_slow for each in self.pieces)


def read_page(path: Path) -> Page:
    return Page(path=path, pieces=tuple(_pieces(path.read_text(encoding="utf-8"))))


def _pieces(text: str) -> Iterator[Snippet | Mark]:
    waiting: tuple[Mark, int] | None = None
    last_fence_end = 0
    for found in _PIECE.finditer(text):
        if found["mark"] is not None:
            mark = _mark(found["mark"])
            if mark.kind in ("setup", "slow setup", "by"):
                yield mark
            else:
                waiting = (mark, found.end())
            continue
        mark = Mark(kind="")
        if waiting is not None:
            mark, end = waiting
            assert not text[end : found.start()].strip(), f"a mark without a fence: {mark}"
        waiting = None
        yield Snippet(
            language=found["language"],
            file=found["file"] or "",
            text=found["text"],
            mark=mark,
            line=text.count("\n", 0, found.start()) + 1,
            start=found.start("text"),
            follows=not text[last_fence_end : found.start()].strip(),
        )
        last_fence_end = found.end()
    assert waiting is None, f"a mark without a fence: {waiting}"


def _mark(written: str) -> Mark:
    written = written.strip()
    kind, _, code = written.partition("\n")
    if kind in ("setup", "slow setup"):
        return Mark(kind=kind, value=code)
    for kind in ("by", "part of"):
        if written.startswith(f"{kind} "):
            return Mark(kind=kind, value=written.removeprefix(f"{kind} "))
    kind, _, reason = written.partition(":")
    assert kind in _REASONED, f"{written!r} is no mark"
    assert reason.strip(), f"{written!r} needs a reason: <!-- test: {kind}: why -->"
    return Mark(kind=kind, value=reason.strip())
