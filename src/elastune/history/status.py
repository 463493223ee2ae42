"""The status of a run, finished or not, as `simulate` and `status` show it: a snapshot of its state."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from elastune.core.commands import Ending
from elastune.core.ledger import Ledger, StageAccount
from elastune.core.limits import START_UP
from elastune.core.run_failure import exception_line
from elastune.core.state import State
from elastune.history.hopping import HoppingFigures
from elastune.history.notes import Failure, RunNote, failures_of
from elastune.history.result import BestTrial, Estimate, best_of, cause_of, count_phases, shortfall_of
from elastune.model.cluster import SECONDS_PER_HOUR
from elastune.model.limits import Limits
from elastune.planning.quote import Quote, StageQuote, price_source
from elastune.setup.run_setup import RunSetup
from elastune.wording import plural

_ROUNDING = 1e-9
_MANY_FAILED = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How the slot time from grant to release was used. The sum is 1."""

    booting: float
    starting: float
    training: float
    saving: float
    idle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus:
    """A stage as planned and as executed. Stages are counted from 0 in each bracket."""

    bracket: int
    stage: int
    nodes: int
    actual: Estimate
    shares: Shares | None  # None: no nodes were held
    planned: StageQuote | None
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    ready: int
    booting: int
    requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrices:
    """The usual price and its source; `others` counts nodes with another price, by dollars per hour."""

    usd_per_hour: float
    source: str
    others: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    policy: str
    planner: str | None  # None: there is no plan
    seed: int
    metric: str
    limits: Limits  # the job's limits; `conceded` names those given up since
    conceded: tuple[str, ...]
    predicted: Estimate | None
    promised: Estimate | None  # not exceeded with the job's confidence; None: there is no plan
    actual: Estimate  # so far; final once the run has ended
    ending: Ending | None
    cause: str | None  # why it failed
    shortfall: str | None  # what it was to do and did not, because trials failed
    traceback: str | None  # of the trial whose failure ended the run
    best: BestTrial | None
    trials: int
    phases: Mapping[str, int]
    iterations: int
    events: int
    nodes: NodeCounts
    growth: tuple[tuple[float, int], ...]  # (time, nodes held from then on)
    brackets: tuple[str, ...]  # their names in the plan
    stages: tuple[StageStatus, ...]
    shares: Shares | None
    failures: tuple[Failure, ...]
    remarks: tuple[RunNote, ...]
    warnings: tuple[str, ...] = ()  # problems to show even if the run is complete
    hopping: HoppingFigures | None = None  # None: no model hopped, or the journal was not read for it
    prices: NodePrices | None = None  # None: all nodes cost the job's price
    planned: Estimate | None = None  # the means of the plan as it was quoted; None: there is no plan
    is_free: bool = False  # nothing costs anything
    startup_s: float = 0.0  # what the command took before; its deadline counts it, `limits` and times do not

    @property
    def down_s(self) -> float:
        """The total time the driver was down. The run's clock was stopped, the billing was not."""
        return sum(remark.down_s for remark in self.remarks)

    @property
    def has_failed(self) -> bool:
        """It has ended without a usable result, or before its time because of failures."""
        if self.ending is None or self.ending is Ending.FAILED:
            return self.ending is Ending.FAILED
        return self.failed > 0 and (self.trials == self.failed or self.best is None)

    @property
    def failed(self) -> int:
        return sum(failure.trials for failure in self.failures)

    @property
    def keeps_deadline(self) -> bool | None:
        return keeps(self.actual.jct_seconds, self.limits.deadline_s)

    @property
    def keeps_budget(self) -> bool | None:
        return keeps(self.actual.cost, self.limits.budget_usd)

    def to_dict(self) -> dict[str, object]:
        """Plain data; keys shared with `RunResult.to_dict` have the same names."""
        data = asdict(self)
        limits = data.pop("limits")
        del data["hopping"], data["is_free"], data["startup_s"]
        if self.prices is None:
            del data["prices"]
        return {
            **data,
            **({} if self.hopping is None else {"hopping": self.hopping.to_dict()}),
            **({"startup_seconds": self.startup_s} if self.startup_s else {}),
            "best": None if self.best is None else self.best.to_dict(),
            "deadline_seconds": limits["deadline_s"],
            "budget": limits["budget_usd"],
            "confidence": limits["confidence"],
            "ending": None if self.ending is None else self.ending.value,
            "down_seconds": self.down_s,
            "growth": [{"at_seconds": at_s, "nodes": nodes} for at_s, nodes in self.growth],
            "stages": [_stage_to_dict(stage) for stage in self.stages],
            "remarks": [
                {"at_seconds": each.at_s, "topic": each.topic, "text": each.text} for each in self.remarks
            ],
        }


def _stage_to_dict(stage: StageStatus) -> dict[str, object]:
    data = asdict(stage)
    actual = data.pop("actual")
    return {**data, "seconds": actual["jct_seconds"], "cost": actual["cost"]}


def keeps(value: float, limit: float | None) -> bool | None:
    """None: there is no such limit."""
    return None if limit is None else value <= limit * (1 + _ROUNDING)


def count_kept(kept: Sequence[bool | None]) -> int | None:
    """How many values of `keeps` are True; None: there is no such limit."""
    return None if None in kept else sum(map(bool, kept))


def promise_of(quote: Quote | None) -> Estimate | None:
    """The estimate that a plan does not exceed with the job's confidence."""
    if quote is None:
        return None
    return Estimate(jct_seconds=quote.jct_quantile_seconds, cost=quote.cost_quantile)


def status_of(
    setup: RunSetup,
    state: State,
    *,
    seed: int,
    predicted: Estimate | None,
    remarks: Iterable[RunNote] = (),
    hopping: HoppingFigures | None = None,
) -> RunStatus:
    ledger = _up_to_now(state)
    over = {(each.pool, each.stage) for each in state.ledger.stages if each.ended_s is not None}
    size = setup.terms.cluster.slots_per_node
    stages = tuple(
        _stage(account, setup.quote, slots_per_node=size, is_over=(account.pool, account.stage) in over)
        for account in sorted(ledger.stages, key=lambda each: (each.pool, each.stage))
        if account.node_s or setup.quote is None or _planned(account, setup.quote) is not None
    )
    quote = setup.quote
    at_s = state.now_s if state.ended_s is None else state.ended_s
    return RunStatus(
        policy=setup.policy,
        planner=None if quote is None else quote.planner,
        seed=seed,
        metric=state.terms.metric,
        limits=_shown_limits(state.terms.limits, state.limits),
        conceded=tuple(sorted(limit.value for limit in state.conceded)),
        predicted=predicted,
        promised=promise_of(quote),
        planned=None if quote is None else Estimate(jct_seconds=quote.jct_seconds, cost=quote.cost),
        actual=Estimate(jct_seconds=at_s, cost=state.ledger.accrued_usd(state.now_s)),
        ending=state.ended,
        cause=cause_of(state),
        shortfall=None if state.ended is None else shortfall_of(state, most_iterations(setup)),
        traceback=_traceback(state),
        best=best_of(state),
        trials=len(state.trials),
        phases=count_phases(state),
        iterations=state.iterations,
        events=state.events,
        nodes=_nodes_now(state),
        growth=_growth(state.ledger),
        brackets=() if quote is None else tuple(bracket.name for bracket in quote.brackets),
        stages=stages,
        shares=_shares(ledger.stages, size),
        failures=failures_of(state),
        remarks=tuple(each for each in remarks if each.topic != START_UP),  # `startup_s` says it
        warnings=tuple(_warnings(setup, state)),
        hopping=hopping,
        prices=_prices(state),
        is_free=setup.terms.cluster.is_free,
        startup_s=state.startup_s,
    )


def most_iterations(setup: RunSetup) -> int | None:
    most = getattr(setup.search, "max_iterations", None)
    return most if isinstance(most, int) else None


def _traceback(state: State) -> str | None:
    """The error that the cause names, where it has more than one line."""
    cause = cause_of(state)
    errors = (trial.error for trial in state.trials.values() if trial.error is not None)
    return next((e for e in errors if cause and "\n" in e and cause.endswith(exception_line(e))), None)


def _prices(state: State) -> NodePrices | None:
    terms, ledger = state.terms.cluster, state.ledger
    rates = Counter(
        round(ledger.node_rate(node) * SECONDS_PER_HOUR, 6)
        for node, account in ledger.nodes.items()
        if account.weight != ledger.usual_weight
    )
    source = price_source(terms)
    if source is None and not rates:
        return None
    others = tuple(sorted(rates.items()))
    return NodePrices(usd_per_hour=terms.price_per_hour, source=source or terms.price_source, others=others)


def is_many(failed: int, trials: int) -> bool:
    """Whether so many trials failed that the search differs from the requested one."""
    return failed > 0 and failed >= _MANY_FAILED * trials


def _warnings(setup: RunSetup, state: State) -> Iterator[str]:
    trials = len(state.trials)
    failed = sum(trial.error is not None for trial in state.trials.values())
    if is_many(failed, trials):
        rest = "" if failed == trials else ": the best model is the best of the others"
        yield f"{failed:,} of {plural(trials, 'trial')} failed{rest}"
    asked = getattr(setup.search, "trials", None)
    if state.exhausted and isinstance(asked, int) and trials < asked:
        yield (
            f"{asked:,} trials were requested, but there are only {trials:,} configurations; "
            "the search ended early"
        )


def _up_to_now(state: State) -> Ledger:
    """The ledger books times and minimum charges when they end. During a run, a copy is closed as if all
    nodes were released now, as `accrued_usd` does."""
    if state.ended is not None:
        return state.ledger
    ledger = copy.deepcopy(state.ledger)
    for node in state.where:
        ledger.end(node, state.now_s)
    ledger.close(state.now_s)
    return ledger


def _stage(account: StageAccount, quote: Quote | None, *, slots_per_node: int, is_over: bool) -> StageStatus:
    seconds = 0.0 if account.ended_s is None else account.ended_s - account.began_s
    return StageStatus(
        bracket=account.pool,
        stage=account.stage,
        nodes=account.nodes,
        actual=Estimate(jct_seconds=seconds, cost=account.usd),
        shares=_shares([account], slots_per_node),
        planned=None if quote is None else _planned(account, quote),
        is_over=is_over,
    )


def _planned(account: StageAccount, quote: Quote) -> StageQuote | None:
    """None: after its last barrier a bracket has an empty stage."""
    stages = quote.brackets[account.pool].stages
    return stages[account.stage] if account.stage < len(stages) else None


def _shares(accounts: Sequence[StageAccount], slots_per_node: int) -> Shares | None:
    held = sum(account.node_s for account in accounts) * slots_per_node
    if held <= 0.0:
        return None
    booting = sum(account.booting_s for account in accounts) * slots_per_node / held
    starting = sum(account.use.starting_s for account in accounts) / held
    training = sum(account.use.training_s for account in accounts) / held
    saving = sum(account.use.saving_s for account in accounts) / held
    idle = max(0.0, 1.0 - booting - starting - training - saving)
    return Shares(booting=booting, starting=starting, training=training, saving=saving, idle=idle)


def _nodes_now(state: State) -> NodeCounts:
    booting = sum(node.ready_s is None for node in state.where.values())
    requested = sum(pool_state.pool.outstanding for pool_state in state.pools.values())
    return NodeCounts(ready=len(state.where) - booting, booting=booting, requested=requested)


def _growth(ledger: Ledger) -> tuple[tuple[float, int], ...]:
    changes = [(max(0.0, node.born_s), 1) for node in ledger.nodes.values()]
    changes += [(node.ended_s, -1) for node in ledger.nodes.values() if node.ended_s is not None]
    nodes, steps = 0, [(0.0, 0)]
    for at_s, together in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        nodes += sum(change for _, change in together)
        steps.append((at_s, nodes))
    return tuple(steps)


def _shown_limits(agreed: Limits, now: Limits) -> Limits:
    """Those in force; a conceded limit is still shown."""
    deadline_s = agreed.deadline_s if now.deadline_s is None else now.deadline_s
    budget_usd = agreed.budget_usd if now.budget_usd is None else now.budget_usd
    return replace(agreed, deadline_s=deadline_s, budget_usd=budget_usd)
