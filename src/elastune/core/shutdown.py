"""How a run ends: it winds up (nothing new starts, what runs is saved), then everything is released.

Also the gist of a trial's error, by which trials that all fail alike end the run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from elastune.core import cluster_manager, gangs, hop_rounds, hopping, limits, scheduling
from elastune.core.commands import Ending, EndRun, Rest
from elastune.core.state import Step
from elastune.core.trial_events import DIVERGED
from elastune.core.trials import Activity, Phase, Trial
from elastune.core.wishes import Wishes
from elastune.model.ids import TrialId
from elastune.model.limits import Limit

_TRACEBACK = "Traceback (most recent call last):\n"
_NUMBER = re.compile(r"\d+(\.\d+)?")
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


def close(step: Step, ending: Ending) -> None:
    """Start to wind up. The first reason counts."""
    state = step.state
    if state.shutdown is not None or state.ended is not None:
        return
    state.shutdown = ending
    state.wishes, state.wished = Wishes(), {}
    hopping.end_rounds(state)
    for pool_state in state.pools.values():
        pool_state.queue.clear()
        pool_state.targets = None
    for number in tuple(state.held):
        gangs.revoke(step, state.trials[number])


def suspend(step: Step) -> None:
    """Save what runs. Unlike at the end, all wishes stay."""
    state = step.state
    state.suspended = True
    hopping.end_rounds(state)
    for number in tuple(state.held):
        if state.trials[number].activity is not Activity.SAVING:
            scheduling.give_way(step, state.trials[number])
    hop_rounds.save_models(step)


def suspend_if_quiet(step: Step) -> None:
    """Once everything is saved and the last node is released, the driver may exit."""
    state = step.state
    if state.suspended and not (state.held or state.nodes_committed or state.barriers or state.sampling):
        step.emit(Rest())


def stop_if_reached(step: Step) -> None:
    """Wind up once the best model, whose checkpoint is durable, reaches the job's target."""
    state = step.state
    target, best = state.terms.target, state.best
    if target is None or best is None or state.shutdown is not None:
        return
    if target.is_reached_by(best.metric):
        reached = f"trial {best.trial} has {best.metric:g} after iteration {best.iteration}"
        step.note("target", f"{target}: {reached}")
        close(step, Ending.TARGET)


def stop_if_hopeless(step: Step) -> None:
    """Wind up when the first trials all failed alike before any trial had a value."""
    state = step.state
    if state.iterations or state.shutdown is not None:
        return
    first = [state.trials.get(TrialId(number)) for number in range(_MAX_EQUAL_FAILURES)]
    failed = [trial for trial in first if trial is not None and trial.error is not None]
    if len(failed) < len(first) or len({gist(trial.error or "") for trial in failed}) > 1:
        return  # one that still runs may get a value
    if any(DIVERGED in (trial.error or "") for trial in failed) or not _differ(failed, state.trials.values()):
        return
    step.note("hopeless", f"the first {len(failed)} trials all failed alike, so the others are not tried")
    close(step, Ending.FAILED)


def _differ(failed: Sequence[Trial], all_: Iterable[Trial]) -> bool:
    """Whether the failed trials differ in all parameters in which any trials differ. The first ones of a grid
    have values in common, which may be the cause."""

    def varied(trials: Iterable[Trial]) -> set[str]:
        values: dict[str, set[object]] = {}
        for trial in trials:
            for name, value in trial.config.items():
                values.setdefault(name, set()).add(value)
        return {name for name, seen in values.items() if len(seen) > 1}

    return varied(all_) == varied(failed)


def last_call(step: Step, limit: Limit) -> None:
    """No iteration that starts now would end in time. If only saves and barriers are left, the run goes on to
    the limit itself."""
    state = step.state
    saving = all(state.trials[number].activity is Activity.SAVING for number in state.held)
    if saving and (state.held or state.barriers) and state.terms.may_exceed is not limit:
        state.called = True
    else:
        run_out(step, limit)


def run_out(step: Step, limit: Limit) -> None:
    """Time or money has run out: wind up, unless the job allows this limit to be exceeded."""
    if step.state.terms.may_exceed is limit:
        limits.concede(step, limit)
        scheduling.adopt(step, step.state.wishes)
        scheduling.fill(step)
    else:
        close(step, Ending.DEADLINE if limit is Limit.DEADLINE else Ending.BUDGET)


def end_run(step: Step, ending: Ending) -> None:
    """End everything now: gangs, nodes, timers."""
    state = step.state
    if state.ended is not None:
        return
    close(step, ending)
    for number in tuple(state.held):
        gangs.stop(step, state.trials[number])
    for trial in state.living():
        trial.step(Phase.STOPPED)
    for pool_state in state.pools.values():
        cluster_manager.release(step, pool_state, list(pool_state.pool.nodes.values()))
    for timer in tuple(state.timers):
        step.cancel_timer(timer)
    state.ended, state.ended_s = state.shutdown, state.now_s
    state.ledger.close(state.now_s)
    step.emit(EndRun(reason=state.shutdown or ending, best=state.best))
