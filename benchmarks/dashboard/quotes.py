"""Seconds from a moved slider to its quote, over HTTP, for the jobs of the README and of its paper."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.reporting import Cell, Report, Table, Track, silently
from tests.dashboard.sites import served

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = {"README (digits)": ("digits", 120.0), "resnet101": ("resnet101", 1200.0)}
_STRETCHES = (1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0, 2.5, 3.0)


class Answer(NamedTuple):
    """`processor_s`: what it would take on a machine that does nothing else, at most."""

    seconds: float
    processor_s: float


def measure(name: str, deadline_s: float) -> tuple[list[Answer], Answer]:
    """Each answer of a slider that moves, and the whole quote, with frontier and planners, at rest."""
    text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as dashboard:

        def asked(stretch: float, *, whole: bool) -> Answer:
            began, processor = time.perf_counter(), time.process_time()
            body = {"text": text, "changes": {"deadline": stretch * deadline_s}, "whole": whole}
            reply = dashboard.post("/api/quote", body)
            assert reply.status == 200, reply.text
            return Answer(time.perf_counter() - began, time.process_time() - processor)

        asked(1.05, whole=False)  # what is imported at first is no slider's time
        return [asked(stretch, whole=False) for stretch in _STRETCHES], asked(1.0, whole=True)


def run(track: Track = silently) -> Report:
    rows: list[tuple[Cell, ...]] = []
    for name, (file, deadline_s) in track(list(JOBS.items())):
        answers, whole = measure(file, deadline_s)
        middle = [statistics.median(each[part] for each in answers) for part in range(2)]
        rows.append((name, *middle, max(each.processor_s for each in answers), *whole))
    table = Table(
        name="quotes",
        title="Seconds from a moved slider to its quote",
        header=("job", "seconds", "processor", "slowest, processor", "at rest", "at rest, processor"),
        rows=tuple(rows),
        note="Medians of nine moves; processor time is what a machine needs that does nothing else. At rest: "
        "with the frontier and the other planners.",
    )
    return Report(tables=(table,))
