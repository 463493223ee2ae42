"""A thing that grows, what one step of it takes, and the table of all steps with their slopes."""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.reporting import Cell, Experiment, Report, Table, Track

FACTOR = 4
ENOUGH_S = 30.0
"""A step that takes longer is the last one of its row."""
PATIENCE_S = 600.0
_KB_PER_GB = 1e6


class Stopwatch:
    """Processor seconds of the part that counts."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began = time.process_time()
        try:
            yield
        finally:
            self.seconds += time.process_time() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """`measure(value, stopwatch)` does the work and returns how much it was, in `unit`."""

    name: str
    grows: str
    first: int
    last: int
    unit: str
    measure: Callable[[int, Stopwatch], int]

    @property
    def values(self) -> list[int]:
        found = [self.first]
        while found[-1] * FACTOR < self.last:
            found.append(found[-1] * FACTOR)
        return [*found, self.last]


def measured_here(subject: Subject, value: int) -> dict[str, float]:
    stopwatch = Stopwatch()
    work = subject.measure(value, stopwatch)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KB_PER_GB
    return {"seconds": stopwatch.seconds, "work": work, "gb": peak_gb}


def run_group(name: str, subjects: Sequence[Subject]) -> Experiment:
    def run(track: Track) -> Report:
        rows = [row for subject in track(list(subjects)) for row in _rows(subject)]
        header = ("what", "grows", "value", "processor, s", "of work", "µs each", "slope", "memory, GB")
        note = (
            f"Each step in a process of its own; the slope is log(time ratio) / log(value ratio) to the step "
            f"before. A row ends at its last value or after a step of more than {ENOUGH_S:.0f} s."
        )
        title = f"What {name} take as jobs grow"
        return Report(tables=(Table(name=name, title=title, header=header, rows=tuple(rows), note=note),))

    return run


def _rows(subject: Subject) -> Iterator[tuple[Cell, ...]]:
    before: tuple[int, float] | None = None
    for value in subject.values:
        found = _in_a_process(subject, value)
        if found is None:
            yield (subject.name, subject.grows, value, None, f"over {PATIENCE_S:.0f} s", None, None, None)
            return
        seconds, work = found["seconds"], int(found["work"])
        slope = None if before is None else math.log(seconds / before[1]) / math.log(value / before[0])
        each = seconds / work * 1e6 if work else None
        yield (
            subject.name,
            subject.grows,
            value,
            seconds,
            f"{work} {subject.unit}",
            each,
            slope,
            found["gb"],
        )
        before = value, seconds
        if seconds > ENOUGH_S:
            return


def _in_a_process(subject: Subject, value: int) -> dict[str, float] | None:
    command = [sys.executable, "-m", "benchmarks.scale", "one", subject.name, str(value)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
