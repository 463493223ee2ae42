"""What the rest of a run will take under new limits, from simulations that go on where the run is.

Each simulation starts from a copy of the run's core, as its journal gives it, with no node up; what is left
trains on curves that rank the trials at random, as in a quote (`policy_quote`). So the boots of nodes that a
living run already has are counted once too often: the forecast errs on the dear side.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

from elastune.core.core import Core
from elastune.core.events import Resumed, RunExtended
from elastune.core.limits import by_command
from elastune.core.state import State
from elastune.curves.source import UnknownSource
from elastune.errors import InvariantError
from elastune.history.result import Estimate
from elastune.runs.control.requests import RefusedRequestError
from elastune.runtime.simulated.runtime import SimulatedRuntime
from elastune.setup.run_setup import RunSetup

_SIMULATIONS = 3
_MOST_EVENTS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionForecast:
    """`so_far` and `expected` are for the whole run and its start-up; limits as they will be. Not known:
    `expected` is None."""

    so_far: Estimate
    expected: Estimate | None
    deadline_s: float | None
    budget_usd: float | None
    trials: int
    max_nodes: int

    @property
    def more_usd(self) -> float | None:
        """The most that the rest may cost: what the budget leaves; None: no budget limits it."""
        return None if self.budget_usd is None else max(0.0, self.budget_usd - self.so_far.cost)

    def to_dict(self) -> dict[str, object]:
        expected = self.expected
        return {
            "so_far": {"jct_seconds": self.so_far.jct_seconds, "cost": self.so_far.cost},
            "expected": expected and {"jct_seconds": expected.jct_seconds, "cost": expected.cost},
            "deadline_seconds": self.deadline_s,
            "budget": self.budget_usd,
            "max_nodes": self.max_nodes,
            "most_more_cost": self.more_usd,
        }


def forecast(setup: RunSetup, core: Core, event: RunExtended) -> ExtensionForecast:
    """`core` is at the end of the journal and stays as it is.

    Raises `RefusedRequestError` if the run would end at once, because nothing is left to train.
    """
    state = core.state
    extended = _copy(setup, core)
    extended.state.terms = replace(extended.state.terms, target=None)  # these curves mean nothing
    extended.handle(event)
    if extended.state.ended is not None:
        raise RefusedRequestError("nothing is left to train within these limits")
    outcomes = [_simulate(setup, _copy(setup, extended), seed) for seed in range(_SIMULATIONS)]
    known = [outcome for outcome in outcomes if outcome is not None]
    expected = None
    if known:
        seconds, usd = (sum(values) / len(known) for values in zip(*known, strict=True))
        expected = Estimate(jct_seconds=seconds + state.startup_s, cost=usd)
    limits = by_command(extended.state)
    return ExtensionForecast(
        so_far=_so_far(state),
        expected=expected,
        deadline_s=limits.deadline_s,
        budget_usd=limits.budget_usd,
        trials=len(state.trials),
        max_nodes=extended.state.terms.cluster.max_nodes,
    )


def _so_far(state: State) -> Estimate:
    at_s = state.now_s if state.ended_s is None else state.ended_s
    return Estimate(jct_seconds=at_s + state.startup_s, cost=state.ledger.accrued_usd(state.now_s))


def _copy(setup: RunSetup, core: Core) -> Core:
    """The setup, which the policy plans with, is shared: its cache of plans serves all copies."""
    return copy.deepcopy(core, {id(setup): setup, id(setup.quote): setup.quote})


def _simulate(setup: RunSetup, core: Core, seed: int) -> tuple[float, float] | None:
    """Time and cost of the whole run; None: it takes too long to simulate, or cannot be."""
    state = core.state
    body = SimulatedRuntime(
        state.terms,
        trainable=UnknownSource(state.terms.metric),
        sampler=setup.tuning.make_sampler(seed, learns=False),
        seed=seed,
        checkpoint_every_s=setup.job.checkpoint_every,
    )
    body.go_on(state.now_s, state.trials.values())
    held = tuple((node.number, max(0.0, state.now_s - node.born_s)) for node in state.where.values())
    try:
        for command in core.handle(Resumed(at_s=state.now_s, down_s=0.0, lost=held)):
            body.carry_out(command)
        for _ in range(_MOST_EVENTS):
            if not body.step(core.handle):
                return state.ended_s or state.now_s, state.ledger.accrued_usd(state.now_s)
    except InvariantError:  # a forecast is no reason to keep a run from going on
        return None
    return None
