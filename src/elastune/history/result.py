"""The result of a run: time, cost, best model, trials by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elastune.core.commands import Ending
from elastune.core.events import Config
from elastune.core.ledger import Ledger
from elastune.core.run_failure import common_error
from elastune.core.state import State
from elastune.core.trials import Phase, Trial
from elastune.errors import InvariantError, JobError
from elastune.history.hopping import HoppingFigures
from elastune.model.configuration import flattened
from elastune.planning.quote import price_keys
from elastune.wording import format_duration, plural, time_and_money


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Time and money; of a prediction, the means. What costs nothing has no price in its text."""

    jct_seconds: float
    cost: float

    def __str__(self) -> str:
        return time_and_money(self.jct_seconds, self.cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestTrial:
    """The best model that has a checkpoint. `metric` is its value after `iterations`."""

    trial: int
    config: Config
    metric: float
    iterations: int
    checkpoint: str | None = None
    """Its path; None: the run was simulated."""

    def load(self, *, pickles: bool | None = None) -> Any:
        """The state of the model, for a run that trained one."""
        raise JobError(self._absence())

    def export(
        self,
        to: Any,
        *,
        part: str | None = None,
        force: bool = False,
        pickles: bool | None = None,
    ) -> Any:
        """Write the model to a file, for a run that trained one."""
        raise JobError(self._absence())

    def _absence(self) -> str:
        return f"trial {self.trial} has no model: the run was simulated; expected one of a real run"

    def to_dict(self) -> dict[str, object]:
        data: dict[str, object] = {"trial": self.trial, "config": dict(self.config), "metric": self.metric}
        data["iterations"] = self.iterations
        return data if self.checkpoint is None else {**data, "checkpoint": self.checkpoint}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    policy: str
    seed: int
    metric: str
    predicted: Estimate
    actual: Estimate
    best: BestTrial | None
    ending: Ending
    trials: int
    phases: Mapping[str, int]
    """How many trials ended in each phase."""
    iterations: int
    events: int
    journal_sha256: str
    ledger: Ledger
    run: str | None = None
    cause: str | None = None
    """Why it failed."""
    shortfall: str | None = None
    """What the search was to do and did not, because trials failed."""
    hopping: HoppingFigures | None = None
    """None: no model hopped."""
    planner: str | None = None
    """None: the policy has no plan."""
    startup_s: float = 0.0
    """What the command took before, which its deadline counts; `actual` and `predicted` do not."""

    def __str__(self) -> str:
        run = "" if self.run is None else f"run {self.run}, "
        best = "no model"
        if self.best is not None:
            config = ", ".join(f"{name}={value}" for name, value in flattened(self.best.config).items())
            best = f"best {self.metric} {self.best.metric:.6g} with {config}"
        ending = self.ending.value if self.cause is None else f"failed ({self.cause})"
        short = "" if self.shortfall is None else f"; {self.shortfall}"
        before = f" after {format_duration(self.startup_s)} of start-up" if self.startup_s else ""
        return f"{run}{ending}: {best}; {self.trials} trials in {self.actual}{before}{short}"

    def to_dict(self) -> dict[str, object]:
        """Plain data with stable keys."""
        best = self.best
        hopping = {} if self.hopping is None else {"hopping": self.hopping.to_dict()}
        start_up = {"startup_seconds": self.startup_s} if self.startup_s else {}
        return {
            "policy": self.policy,
            "planner": self.planner,
            "seed": self.seed,
            "predicted": {"jct_seconds": self.predicted.jct_seconds, "cost": self.predicted.cost},
            "actual": {"jct_seconds": self.actual.jct_seconds, "cost": self.actual.cost},
            "best": None if best is None else best.to_dict(),
            "metric": self.metric,
            "ending": self.ending.value,
            "cause": self.cause,
            "shortfall": self.shortfall,
            "trials": self.trials,
            "phases": dict(self.phases),
            "iterations": self.iterations,
            "events": self.events,
            "stages": [_stage_to_dict(self.ledger, index) for index in range(len(self.ledger.stages))],
            "journal_sha256": self.journal_sha256,
            "run": self.run,
            **price_keys(self.ledger.terms),
            **hopping,
            **start_up,
        }


def result_of(  # noqa: PLR0913  all by name
    state: State,
    *,
    policy: str,
    seed: int,
    run: str,
    predicted: Estimate,
    journal_sha256: str,
    planner: str | None = None,
    most_iterations: int | None = None,
) -> RunResult:
    if state.ended is None or state.ended_s is None:
        raise InvariantError(f"run {run} has not ended; expected a finished run")
    return RunResult(
        policy=policy,
        seed=seed,
        metric=state.terms.metric,
        predicted=predicted,
        actual=Estimate(jct_seconds=state.ended_s, cost=state.ledger.accrued_usd(state.now_s)),
        best=best_of(state),
        ending=state.ended,
        trials=len(state.trials),
        phases=count_phases(state),
        iterations=state.iterations,
        events=state.events,
        journal_sha256=journal_sha256,
        ledger=state.ledger,
        run=run,
        cause=cause_of(state),
        shortfall=shortfall_of(state, most_iterations),
        planner=planner,
        startup_s=state.startup_s,
    )


def cause_of(state: State) -> str | None:
    return state.cause if state.ended is Ending.FAILED else None


def shortfall_of(state: State, most_iterations: int | None) -> str | None:
    """Finalists that failed, and how far the best model is; None: no trial failed that was to be finished.

    `most_iterations` are those of the search, for a run in which no trial came so far as to be a finalist.
    """
    trials = state.trials.values()
    finalists = [trial for trial in trials if trial.final_goal is not None]
    failed = [trial for trial in finalists if trial.error is not None]
    told = []
    if failed and len(finalists) < len(trials):
        told.append(f"{len(failed)} of {plural(len(finalists), 'finalist')} failed: {common_error(failed)}")
    goal = max((trial.final_goal or 0 for trial in finalists), default=most_iterations or 0)
    best = state.best
    cut_short = best is not None and (cause_of(state) or state.trials[best.trial] in failed)
    if best is not None and cut_short and best.iteration < goal:
        told.append(f"the best model has {best.iteration:,} of {plural(goal, 'iteration')}")
    return "; ".join(told) or None


def best_of(state: State) -> BestTrial | None:
    best = state.best
    if best is None:
        return None
    config = state.trials[best.trial].config
    return BestTrial(trial=best.trial, config=config, metric=best.metric, iterations=best.iteration)


def count_phases(state: State) -> dict[str, int]:
    counts = Counter(phase_of(state, trial) for trial in state.trials.values())
    return {phase.value: counts[phase] for phase in Phase if counts[phase]}


def phase_of(state: State, trial: Trial) -> Phase:
    """As shown to users: a hopping trial runs during its whole epoch, though it has a slot only on visits."""
    return Phase.RUNNING if trial.activity is None and is_amid_round(state, trial) else trial.phase


def is_amid_round(state: State, trial: Trial) -> bool:
    """Whether the trial has visits left in the current epoch."""
    wish = state.wished.get(trial.number)
    pool_state = None if wish is None else state.pools.get(wish.pool)
    now = None if pool_state is None else pool_state.hop_state.round
    return now is not None and trial.number in now.open


def _stage_to_dict(ledger: Ledger, index: int) -> dict[str, object]:
    stage = ledger.stages[index]
    return {
        "bracket": stage.pool,
        "stage": stage.stage,
        "began_seconds": stage.began_s,
        "seconds": 0.0 if stage.ended_s is None else stage.ended_s - stage.began_s,
        "nodes": stage.nodes,
        "cost": stage.usd,
        "node_seconds": stage.node_s,
        "booting_node_seconds": stage.booting_s,
        "starting_slot_seconds": stage.use.starting_s,
        "training_slot_seconds": stage.use.training_s,
        "saving_slot_seconds": stage.use.saving_s,
        "idle_slot_seconds": ledger.idle_slot_s(stage),
    }
