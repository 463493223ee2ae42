"""When failed trials make a run fail: trials that all fail alike, and searches that end without a winner.

A run fails early if no trial gets past an iteration because all that try fail with one cause (the gist of
their errors). A few configurations that crash, such as networks too large for the memory, are no such cause:
others get past, or fail otherwise, so trials that may still get past are waited for. A model that diverges is
the fault of its configuration and never counts. The first rule covers trials that fail before any has a
value, the second all later iterations, stages, rungs and rounds, whatever the policy.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from elastune.core.commands import Ending
from elastune.core.shutdown import close, end_run
from elastune.core.state import State, Step
from elastune.core.trial_events import DIVERGED
from elastune.core.trials import Activity, Phase, Trial
from elastune.model.configuration import flattened
from elastune.model.ids import TrialId
from elastune.wording import plural

_TRACEBACK = "Traceback (most recent call last):\n"
_NUMBER = re.compile(r"\d+(\.\d+)?")
_NO_NUMBER = re.compile(r"\bnan\b|\binf\b|diverg", re.IGNORECASE)
_MAX_EQUAL_FAILURES = 5


def exception_line(error: str) -> str:
    """Type and message of the exception that a traceback ends with; of another text, its first line.

    Of a message with several lines, the first that is not empty.
    """
    _, mark, frames = error.strip().rpartition(_TRACEBACK)
    lines = [line.rstrip() for line in frames.splitlines() if line.strip()]
    if mark:
        lines = list(itertools.dropwhile(lambda line: line.startswith(" "), lines)) or lines
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1].strip()}"
    return lines[0] if lines else ""


def gist(error: str) -> str:
    """Equal for errors that differ in numbers only."""
    return _NUMBER.sub("#", exception_line(error))


def has_diverged(trial: Trial) -> bool:
    """Whether it failed because its numbers grew out of bounds, as the core found or its own code raised."""
    error = trial.error or ""
    return DIVERGED in error or _NO_NUMBER.search(exception_line(error)) is not None


def stop_if_hopeless(step: Step) -> bool:
    """After a failure, wind the run up if no trial can do better; True: `fail_fast` has ended it at once."""
    state, trial = step.state, step.failed
    if (trial is None and state.awaited is None) or state.shutdown is not None:
        return False
    if trial is not None and state.terms.fail_fast and not has_diverged(trial):
        state.cause = (
            f"trial {trial.number} failed, and fail_fast is set: {exception_line(trial.error or '')}"
        )
        step.note("hopeless", state.cause)
        end_run(step, Ending.FAILED)
        return True
    if not state.iterations:
        _stop_if_first_failed(step)
    else:
        _stop_at_frontier(step)
    return False


def _stop_if_first_failed(step: Step) -> None:
    """The first trials all failed alike before any trial had a value."""
    state = step.state
    first = [state.trials.get(TrialId(number)) for number in range(_MAX_EQUAL_FAILURES)]
    failed = [trial for trial in first if trial is not None and trial.error is not None]
    if len(failed) < len(first):
        return  # one that still runs may get a value
    if _are_alike(failed) and _differ(failed, state.trials.values()):
        state.cause = (
            f"the first {len(failed)} trials all failed alike: {exception_line(failed[0].error or '')}"
        )
        step.note("hopeless", f"the first {len(failed)} trials all failed alike, so the others are not tried")
        close(step, Ending.FAILED)


def _stop_at_frontier(step: Step) -> None:
    """No trial got further than the furthest iteration, and all that tried failed alike."""
    state = step.state
    failed = _failed_at_frontier(state)
    alike = len(failed) >= _MAX_EQUAL_FAILURES and _are_alike(failed)
    if not alike or not _differ(failed, state.trials.values()):
        state.awaited = None
        return
    hopes = _may_get_past(state)
    if state.awaited is not None:  # trials that began later are no reason to wait longer
        hopes &= state.awaited
    state.awaited = hopes
    if not hopes:
        state.cause = _at_frontier(state, failed)
        step.note("hopeless", f"{state.cause}; the others are not tried")
        close(step, Ending.FAILED)


def honest_ending(step: Step, ending: Ending) -> Ending:
    """How a run ends that is over for its policy: it is not complete if no trial was trained to its end, and
    those that went furthest have crashed."""
    state = step.state
    if ending is Ending.FAILED and state.cause is None:
        state.cause = _most_common(list(state.trials.values()), len(state.trials))
    if ending is not Ending.COMPLETE or any(not t.phase.is_over for t in state.trials.values()):
        return ending
    failed = _failed_at_frontier(state)
    has_winner = any(trial.phase is Phase.FINISHED for trial in state.trials.values())
    if has_winner or not failed or all(has_diverged(trial) for trial in failed):
        return ending
    state.cause = _at_frontier(state, failed)
    step.note("hopeless", state.cause)
    return Ending.FAILED


def _failed_at_frontier(state: State) -> list[Trial]:
    """Trials that failed in the iteration that no trial has done."""
    failed = (trial for trial in state.trials.values() if trial.phase is Phase.FAILED)
    return [trial for trial in failed if trial.failed_after == state.furthest]


def _may_get_past(state: State) -> frozenset[tuple[TrialId, int]]:
    """The gangs (trial and generation) that train and may do the iteration that others failed in. Their rows
    may not be reported yet."""
    held = (state.trials[number] for number in state.held)
    busy = (trial for trial in held if trial.activity in {Activity.STARTING, Activity.TRAINING})
    beyond = (t for t in busy if t.lease is not None and t.lease.until_iteration > state.furthest)
    return frozenset((trial.number, trial.generation) for trial in beyond)


def _at_frontier(state: State, failed: Sequence[Trial]) -> str:
    what = f"all {len(failed)} trials that began" if len(failed) > 1 else "the only trial that began"
    return f"{what} iteration {state.furthest + 1} failed: {common_error(failed)}"


def _most_common(trials: Sequence[Trial], of: int) -> str | None:
    failed = [trial for trial in trials if trial.error is not None]
    if not failed:
        return None
    return f"{len(failed)} of {plural(of, 'trial')} failed: {common_error(failed)}"


def common_error(failed: Sequence[Trial]) -> str:
    """The error of most of them; those that diverged do not count beside others."""
    crashed = [trial for trial in failed if not has_diverged(trial)] or failed
    ((common, _),) = Counter(gist(trial.error or "") for trial in crashed).most_common(1)
    return next(exception_line(trial.error or "") for trial in crashed if gist(trial.error or "") == common)


def _are_alike(failed: Sequence[Trial]) -> bool:
    alike = len({gist(trial.error or "") for trial in failed}) == 1
    return alike and not any(has_diverged(trial) for trial in failed)


def _differ(failed: Sequence[Trial], all_: Iterable[Trial]) -> bool:
    """Whether the failed trials differ in all parameters in which any trials differ. The first ones of a grid
    have values in common, which may be the cause."""

    def varied(trials: Iterable[Trial]) -> set[str]:
        values: dict[str, set[object]] = {}
        for trial in trials:
            for name, value in flattened(trial.config).items():
                values.setdefault(name, set()).add(value)
        return {name for name, seen in values.items() if len(seen) > 1}

    return varied(all_) == varied(failed)
