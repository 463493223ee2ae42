"""The output of a trial: what its workers printed, read as a whole or followed while the trial runs."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.journal.records import RuntimeKind
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.runs.reopening import setup_of, taken_in, wait_for_start
from elastune.runtime.ray.messages import log_name
from elastune.wording import several

_LOG = re.compile(r"trial-([0-9]{5,})(?:\.rank-[0-9]+)?\.log")
_EVERY_S = 0.5
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLog:
    """What one worker of a trial has printed; `str` is all of it, iterating gives its lines."""

    found: FoundRun
    trial: int
    rank: int = 0

    @property
    def path(self) -> Path:
        return self.found.folder.logs / log_name(self.trial, self.rank)

    def __str__(self) -> str:
        return "".join(self)

    def __iter__(self) -> Iterator[str]:
        """Its lines, each with its newline."""
        if not self.path.exists():
            raise self._absence()
        yield from _lines(_Tail(self.path).read())

    def follow(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[str]:
        """Its lines as they are printed, until the trial or the run has ended."""
        tail, rest = _Tail(self.path), ""
        wait_for_start(self.found.record, Journal.open(self.found.journal, read_only=True), sleep)
        following = _Following(self.found, self.trial)
        while True:
            is_over = following.is_over()  # before the last look at the file
            *lines, rest = _lines(rest + tail.read(), keep_rest=True)
            yield from lines
            if is_over:
                break
            sleep(_EVERY_S)
        if rest:
            yield rest
        if not self.path.exists():
            raise self._absence()

    def _absence(self) -> ElastuneError:
        run, logs = self.found.record.run, _logged_trials(self.found)
        if self.trial in logs:
            return ExecutionError(
                f"trial {self.trial} of run {run} has no log of rank {self.rank}; its log of rank 0 exists"
            )
        trials = _Following(self.found, self.trial).trials
        if self.trial not in trials:
            there = f"it has trials 0 to {max(trials)}" if trials else "no trial has started yet"
            return JobError(f"run {run} has no trial {self.trial}; {there}")
        return ExecutionError(
            f"trial {self.trial} of run {run} has no log: it has not started, or it was on another machine, "
            "from which only the last lines of a failure are kept; trials with a log: "
            f"{several(map(str, logs))}"
        )


def find_log(found: FoundRun, trial: int | str, rank: int = 0) -> TrialLog:
    """`trial` is a number, `best`, or `last`: the one that printed last."""
    run = found.record.run
    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {run} is simulated: its trials print nothing; expected a real run")
    text = str(trial)
    if text.isdecimal():
        return TrialLog(found=found, trial=int(text), rank=rank)
    if text == "last":
        logged = _logged_trials(found)
        if not logged:
            raise JobError(f"run {run} has no logs yet: no trial has started on this machine")
        return TrialLog(found=found, trial=logged[-1], rank=rank)
    if text != "best":
        raise JobError(f"trial is {text!r}; expected a number, best or last")
    best = _Following(found, 0).best
    if best is None:
        raise JobError(f"run {run} has no best model yet; expected the number of a trial, or last")
    return TrialLog(found=found, trial=best, rank=rank)


def _logged_trials(found: FoundRun) -> list[int]:
    """The one that printed last at the end."""
    times: dict[int, float] = {}
    for path in found.folder.logs.glob("trial-*.log"):
        match = _LOG.fullmatch(path.name)
        if match:
            times[int(match[1])] = max(path.stat().st_mtime, times.get(int(match[1]), 0.0))
    return sorted(times, key=lambda trial: (times[trial], trial))


class _Following:
    """How far a run is, as its journal grows."""

    def __init__(self, found: FoundRun, trial: int) -> None:
        self._run, self._trial = found.record.run, trial
        self._journal = Journal.open(found.journal, read_only=True)
        self._core = setup_of(found.record, self._journal).make_core(found.record.seed)

    @property
    def trials(self) -> frozenset[int]:
        self._read()
        return frozenset(trial.number for trial in self._core.state.trials.values())

    @property
    def best(self) -> int | None:
        self._read()
        best = self._core.state.best
        return None if best is None else best.trial

    def is_over(self) -> bool:
        """Whether the trial prints nothing more: it or the run has ended, or the run has no driver."""
        has_driver = self._journal.summary(self._run).writer is not None
        self._read()
        state = self._core.state
        trial = next((each for each in state.trials.values() if each.number == self._trial), None)
        return not has_driver or state.ended is not None or (trial is not None and trial.phase.is_over)

    def _read(self) -> None:
        entries = self._journal.read(self._run, after=self._core.state.events)
        taken_in(self._core, entries, self._run, audited=False)


class _Tail:
    """Reads what was added to a file, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self) -> str:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                blocks = list(iter(lambda: file.read(_BLOCK), b""))
                self._position = file.tell()
        except FileNotFoundError:
            return ""
        return "".join(map(self._decoder.decode, blocks))


def _lines(text: str, *, keep_rest: bool = False) -> list[str]:
    """With their newlines. `keep_rest`: the last one is what follows the last newline, perhaps nothing."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if keep_rest or last else lines
