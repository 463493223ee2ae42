"""Callbacks of the user: called while a run goes on, in a thread of their own.

They get plain values, at most some seconds late. What they raise is noted once per method and never ends the
run; what they do slowly never delays it, except at its end, for half a minute at most.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from elastune.core.state import State
from elastune.errors import JobError
from elastune.exports.files import RunHead, RunNews
from elastune.exports.saved_model import saved_model
from elastune.history.notes import RunNote
from elastune.history.result import BestTrial
from elastune.history.trials import TrialEntry
from elastune.training.recipe import load
from elastune.wording import either, seen

_log = logging.getLogger("elastune")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run that starts, or that is resumed."""

    run: str
    name: str
    folder: str
    policy: str
    seed: int
    metric: str
    mode: str
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInfo:
    """The metrics of a trial after an iteration; `seconds` is the time of the run."""

    trial: int
    iteration: int
    metrics: Mapping[str, float]
    config: Mapping[str, object]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndInfo:
    """How a run ended: `complete`, `target`, `deadline`, `budget`, `stopped`, `failed`, or `suspended`."""

    run: str
    ending: str
    best: BestTrial | None
    trials: int
    seconds: float
    cost: float


class Callback:
    """For `elastune.tune(..., callbacks=[...])`: override what you need. Any object with one of these methods
    is a callback."""

    def on_start(self, run: RunInfo) -> None:
        """The run has started, or was resumed."""

    def on_result(self, result: ResultInfo) -> None:
        """A trial has trained an iteration."""

    def on_trial_end(self, trial: TrialEntry) -> None:
        """A trial is finished, stopped or failed (`trial.status`)."""

    def on_best(self, best: BestTrial) -> None:
        """There is a new best model, with a checkpoint."""

    def on_end(self, end: EndInfo) -> None:
        """The run has ended or is suspended."""


METHODS = ("on_start", "on_result", "on_trial_end", "on_best", "on_end")


def open_callbacks(given: Iterable[object]) -> tuple[object, ...]:
    """Objects as they are; classes, and references such as `my_module:MyCallback`, without arguments."""
    return tuple(_open(each) for each in given)


def check_callbacks(references: Iterable[str]) -> None:
    """Raises `JobError` if one cannot be imported."""
    for reference in references:
        load(reference)


def _open(given: object) -> object:
    made = load(given) if isinstance(given, str) else given
    if isinstance(made, type):
        try:
            made = made()
        except Exception as error:
            raise JobError(
                f"the callback {seen(given)} cannot be made: {type(error).__name__}: {error}; expected a "
                "class that needs no arguments, or an object"
            ) from error
    if not any(callable(getattr(made, name, None)) for name in METHODS):
        raise JobError(f"the callback {seen(given)} has no method {either(METHODS)}; expected one or more")
    return made


class CallbackWriter:
    """A `LogWriter` that calls callbacks. `end` is called when the run is over."""

    where = "callbacks"

    def __init__(
        self, callbacks: Sequence[object], start: RunInfo, *, end: Callable[[str], EndInfo], state: State
    ) -> None:
        self.notes: list[RunNote] = []
        self._callbacks = callbacks
        self._start = start
        self._end = end
        self._state = state
        self._ending = "suspended"
        self._configs: dict[int, Mapping[str, object]] = {}
        self._over: set[int] = set()
        best = state.best  # of a resumed run: it was told before
        self._best = None if best is None else (int(best.trial), best.iteration)

    def open(self) -> CallbackWriter:
        self._call("on_start", self._start)
        return self

    def update(self, news: RunNews) -> None:
        self._configs |= {line.trial: dict(line.config) for line in news.trials}
        for row in news.rows:
            result = ResultInfo(
                trial=row.trial,
                iteration=row.iteration,
                metrics=dict(row.metrics),
                config=self._configs.get(row.trial, {}),
                seconds=row.at_s,
            )
            self._call("on_result", result)
        if news.best is not None:
            self._tell_best(news.best)
        for line in news.trials:
            if line.is_over and line.trial not in self._over:
                self._over.add(line.trial)
                self._call("on_trial_end", line)
        if news.ending is not None:
            self._ending = news.ending

    def close(self) -> None:
        self._call("on_end", self._end(self._ending))

    def _tell_best(self, line: TrialEntry) -> None:
        best = best_of_line(line)
        if best is not None and (best.trial, best.iterations) != self._best:
            self._best = (best.trial, best.iterations)
            self._call("on_best", best)

    def _call(self, method: str, value: object) -> None:
        for callback in self._callbacks:
            function = getattr(callback, method, None)
            if callable(function):
                try:
                    function(value)
                except (Exception, SystemExit) as error:  # noqa: BLE001  code of the user
                    self._complain(f"{type(callback).__name__}.{method}", error)

    def _complain(self, name: str, error: BaseException) -> None:
        """Once for each method."""
        started = f"the callback {name} raised "
        if any(note.text.startswith(started) for note in self.notes):
            return
        text = f"{started}{type(error).__name__}: {error}; the run goes on, and it is called again"
        self.notes.append(RunNote(at_s=self._state.now_s, topic="callback", text=text))
        _log.warning("%s\n%s", text, "".join(traceback.format_exception(error)))


def best_of_line(line: TrialEntry) -> BestTrial | None:
    """The best model, from the entry of its trial."""
    if line.best is None or line.best_iteration is None:
        return None
    best = BestTrial(trial=line.trial, config=line.config, metric=line.best, iterations=line.best_iteration)
    return best if line.checkpoint is None else saved_model(best, line.checkpoint)


def info_of(head: RunHead, folder: str, *, resumed: bool) -> RunInfo:
    return RunInfo(
        run=head.run,
        name=head.name,
        folder=folder,
        policy=head.policy,
        seed=head.seed,
        metric=head.metric,
        mode=head.mode.value,
        resumed=resumed,
    )
