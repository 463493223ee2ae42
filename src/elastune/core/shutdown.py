"""What an error of a trial says in one line, and when two of them are the same but for their numbers.

How a run ends: it winds up (nothing new begins, what runs is saved), then everything is given back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from elastune.core import (
    cluster_manager as manager,
)
from elastune.core import (
    gangs,
    hopping,
)
from elastune.core import (
    hop_rounds as stowing,
)
from elastune.core import (
    limits as guards,
)
from elastune.core import (
    scheduling as seating,
)
from elastune.core.commands import Ending, EndRun, Rest
from elastune.core.state import Step
from elastune.core.trial_events import DIVERGED
from elastune.core.trials import Activity, Phase, Trial
from elastune.core.wishes import Wishes
from elastune.model.ids import TrialId
from elastune.model.limits import Limit

_TRACEBACK = "Traceback (most recent call last):\n"
_NUMBER = re.compile(r"\d+(\.\d+)?")


def exception_line(error: str) -> str:
    """Type and message of the exception that a traceback ends with; of another text, its first line.

    A message may have many lines; the first one that says something is told.
    """
    _, mark, frames = error.strip().rpartition(_TRACEBACK)
    lines = [line.rstrip() for line in frames.splitlines() if line.strip()]
    if mark:
        lines = list(itertools.dropwhile(lambda line: line.startswith(" "), lines)) or lines
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1].strip()}"
    return lines[0] if lines else ""


def gist(error: str) -> str:
    """The same for errors that differ in numbers only."""
    return _NUMBER.sub("#", exception_line(error))


_MOST_FAILURES_ALIKE = 5


def close(step: Step, ending: Ending) -> None:
    """Wind up. The first reason counts."""
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


def rest(step: Step) -> None:
    """Save what runs. Unlike at the end, all that is wished for stays."""
    state = step.state
    state.suspended = True
    hopping.end_rounds(state)
    for number in tuple(state.held):
        if state.trials[number].activity is not Activity.SAVING:
            seating.give_way(step, state.trials[number])
    stowing.stow(step)


def suspend_if_quiet(step: Step) -> None:
    """Once everything is saved and the last node is given back, the driver may go."""
    state = step.state
    if state.suspended and not (state.held or state.nodes_committed or state.barriers or state.sampling):
        step.tell(Rest())


def stop_if_reached(step: Step) -> None:
    """Wind up once the best model, whose checkpoint is durable, is as good as was asked for."""
    state = step.state
    target, best = state.terms.target, state.best
    if target is None or best is None or state.shutdown is not None:
        return
    if target.is_reached_by(best.metric):
        reached = f"trial {best.trial} has {best.metric:g} after iteration {best.iteration}"
        step.note("target", f"{target}: {reached}")
        close(step, Ending.TARGET)


def stop_if_hopeless(step: Step) -> None:
    """Wind up when the first trials all failed alike before anybody had a value: so will the rest."""
    state = step.state
    if state.iterations or state.shutdown is not None:
        return
    first = [state.trials.get(TrialId(number)) for number in range(_MOST_FAILURES_ALIKE)]
    failed = [trial for trial in first if trial is not None and trial.error is not None]
    if len(failed) < len(first) or len({gist(trial.error or "") for trial in failed}) > 1:
        return  # one that fails late may be about to have a value
    if any(DIVERGED in (trial.error or "") for trial in failed) or not _differ(failed, state.trials.values()):
        return
    step.note("hopeless", f"the first {len(failed)} trials all failed alike, so the others are not tried")
    close(step, Ending.FAILED)


def _differ(failed: Sequence[Trial], all_: Iterable[Trial]) -> bool:
    """Whether those that failed differ in everything in which trials differ: in a grid, say, the first ones
    have much in common, and that may be what is wrong with them."""

    def varied(trials: Iterable[Trial]) -> set[str]:
        values: dict[str, set[object]] = {}
        for trial in trials:
            for name, value in trial.config.items():
                values.setdefault(name, set()).add(value)
        return {name for name, seen in values.items() if len(seen) > 1}

    return varied(all_) == varied(failed)


def last_call(step: Step, limit: Limit) -> None:
    """No iteration that begins now would end in time.

    Where all have saved or are about to, the run may still end well: it goes on to the limit itself.
    """
    state = step.state
    saving = all(state.trials[number].activity is Activity.SAVING for number in state.held)
    if saving and (state.held or state.barriers) and state.terms.may_exceed is not limit:
        state.called = True
    else:
        run_out(step, limit)


def run_out(step: Step, limit: Limit) -> None:
    """Time or money has run out: wind up, unless that limit may be exceeded."""
    if step.state.terms.may_exceed is limit:
        guards.concede(step, limit)
        seating.adopt(step, step.state.wishes)
        seating.fill(step)
    else:
        close(step, Ending.DEADLINE if limit is Limit.DEADLINE else Ending.BUDGET)


def end_run(step: Step, ending: Ending) -> None:
    """Everything ends now: gangs, nodes, timers."""
    state = step.state
    if state.ended is not None:
        return
    close(step, ending)
    for number in tuple(state.held):
        gangs.stop(step, state.trials[number])
    for trial in state.living():
        trial.step(Phase.STOPPED)
    for pool_state in state.pools.values():
        manager.release(step, pool_state, list(pool_state.pool.nodes.values()))
    for timer in tuple(state.timers):
        step.cancel_timer(timer)
    state.ended, state.ended_s = state.shutdown, state.now_s
    state.ledger.close(state.now_s)
    step.tell(EndRun(reason=state.shutdown or ending, best=state.best))
