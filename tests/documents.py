"""Pages whose commands are run: what is printed is what the page shows.

`python -m tests.documents docs/simulating.md` writes what is printed now into the page, keeping its `...`.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from elastune.journal.records import to_text
from tests.cli.commands import elastune

_BLOCK = re.compile(r"```(?P<language>\w+)(?: (?P<file>[\w.-]+))?\n(?P<text>.*?)```", re.DOTALL)
_COMMAND = re.compile(r"\$ elastune (?P<arguments>[^\n#]+?)(?: +#[^\n]*)?\n(?P<output>(?:(?!\$ ).*\n)*)")
# Every run draws an id; in a page the first one is always this, and so on.
_IDS = ("3fa2c1", "8b07de", "c44e19", "e5d260", "197bf3", "a2c85d", "5e90f4", "d713b8")
_STAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A command of a page, the output that stands there, and the one that came."""

    command: str
    shown: list[str]
    printed: list[str]
    start: int
    end: int

    def fitted(self) -> list[str]:
        """What was printed, with as many lines left out as the page leaves out at its `...`."""
        if "..." not in self.shown:
            return self.printed
        head = self.shown.index("...")
        tail = len(self.shown) - head - 1
        return [*self.printed[:head], "...", *self.printed[len(self.printed) - tail :]]


def make_young(runs_folder: Path) -> None:
    """As if the runs had just begun, in their order: a page says `now`, however long its commands take."""
    begun: list[tuple[str, Path]] = []
    for journal in runs_folder.glob("*/journal.sqlite"):
        with closing(sqlite3.connect(journal)) as open_journal:
            begun += [
                (text, journal) for (text,) in open_journal.execute("SELECT created_utc FROM elastune_runs")
            ]
    for number, (text, journal) in enumerate(sorted(begun, reverse=True)):
        moment = to_text(datetime.now(UTC) - timedelta(milliseconds=100 * number))
        with closing(sqlite3.connect(journal)) as open_journal:
            open_journal.execute(
                "UPDATE elastune_runs SET created_utc = ? WHERE created_utc = ?", (moment, text)
            )
            open_journal.commit()


def run_page(page: Path, folder: Path) -> Iterator[Shown]:
    """Blocks that name a file (```yaml job.yaml) are written, commands run, in the order of the page."""
    ids: dict[str, str] = {}
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"], encoding="utf-8")
        if block["language"] != "console":
            continue
        for command in _COMMAND.finditer(text, block.start("text"), block.end("text")):
            if command["arguments"].startswith("runs"):
                make_young(folder / "elastune-runs")
            done = elastune(*command["arguments"].split(), cwd=folder)
            printed = as_in_a_page(done.stdout + done.stderr, folder, ids)
            yield Shown(
                command=command["arguments"],
                shown=command["output"].rstrip("\n").splitlines(),
                printed=printed,
                start=command.start("output"),
                end=command.end("output"),
            )


def as_in_a_page(output: str, folder: Path, ids: dict[str, str]) -> list[str]:
    """What differs from run to run (ids, moments) as pages write it; `ids` are those seen before."""
    for path in (folder / "elastune-runs").glob("*"):
        ids.setdefault(path.name[-6:], _IDS[len(ids) % len(_IDS)])
    for drawn, written in ids.items():
        output = output.replace(drawn, written)
    output = _MOMENT.sub("2026-11-16 10:15:00 UTC", _STAMP.sub("20261116T101500Z", output))
    return [line.rstrip() for line in output.rstrip().splitlines()]


def _refresh(page: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = list(run_page(page, Path(folder)))
    text = page.read_text(encoding="utf-8")
    for each in reversed(shown):
        text = text[: each.start] + "".join(f"{line}\n" for line in each.fitted()) + text[each.end :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _refresh(Path(sys.argv[1]))
