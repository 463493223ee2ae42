"""Which kind of node a job gets: it is quoted with each, and the cheapest that keeps its limits is taken.

With a budget and no deadline it is the fastest. A search that decides while it runs goes as far as its limits
let it, and a node that is slow enough is always cheap: so of its kinds only those count on which about as
much is trained as on the best. Where nodes may be taken away, the figures are those of the
rehearsals with interruptions, and a kind that keeps the limits less often than the job's confidence is taken
only if none is better.

What is offered before a real run: the trainable opened, the search planned, time and money predicted.

A job with a choice between kinds of nodes, prepared with the best of them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from elastune.errors import InfeasibleError, InvariantError, JobError
from elastune.history.result import Estimate
from elastune.job.job import Job
from elastune.model.limits import Objective
from elastune.planning.quote import KindQuote, Quote
from elastune.runs.code_bundle import CodeShipment, ship
from elastune.runs.listeners import check_loggers
from elastune.runs.policy_quote import PolicyQuote
from elastune.runs.quoting import quote_of, with_risk
from elastune.setup.run_setup import MEASURING, RunSetup, SetupPurpose, prepare, with_price
from elastune.wording import format_duration, format_usd

T = TypeVar("T")
_ROUNDING = 1e-9
# What counts as the same amount of training.
_ABOUT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Generic[T]):
    """`job` is a plain one; `prepared` is what was made of it; `kinds` compares them all."""

    job: Job
    prepared: T
    kinds: tuple[KindQuote, ...]


def choose_kind(
    job: Job, prepare: Callable[[Job], T], quote_of: Callable[[T], Quote | PolicyQuote]
) -> Chosen[T]:
    """`prepare` prepares a job of one kind. Raises `InfeasibleError` if no kind keeps the limits."""
    compared: list[KindQuote] = []
    offers: dict[str, tuple[Job, T]] = {}
    by_time = job.deadline is None and job.budget is not None
    for kind in job.cluster.kinds:
        plain = with_price(job.of_kind(kind))
        try:
            made = prepare(plain)
        except InfeasibleError as error:
            compared.append(_infeasible(kind.name, plain, error))
            continue
        quote = quote_of(made)
        by_time = by_time or (isinstance(quote, Quote) and quote.objective is Objective.TIME)
        offers[kind.name] = (plain, made)
        compared.append(_compared(kind.name, plain, quote))
    if not offers:
        raise InfeasibleError(_tell_none(compared))
    quoted = [each for each in compared if each.name in offers]
    best = min(_worthwhile(quoted), key=lambda each: _rank(each, by_time=by_time))
    plain, made = offers[best.name]
    kinds = tuple(replace(each, chosen=each is best) for each in compared)
    return Chosen(job=plain, prepared=made, kinds=kinds)


def _worthwhile(kinds: Sequence[KindQuote]) -> Sequence[KindQuote]:
    """Those on which the search gets about as far as it can within the limits."""
    keeping = [kind for kind in kinds if kind.keeps] or kinds
    most = max(kind.iterations or 0.0 for kind in keeping)
    return [kind for kind in keeping if kind.iterations is None or kind.iterations >= most * _ABOUT]


def _rank(kind: KindQuote, *, by_time: bool) -> tuple[bool, float, float, float]:
    cost, seconds = kind.expected_cost, kind.expected_seconds
    kept = 0.0 if kind.keeps or kind.risk is None else -kind.risk.share_kept
    return (not kind.keeps, kept, *((seconds, cost) if by_time else (cost, seconds)))


def _compared(name: str, job: Job, quote: Quote | PolicyQuote) -> KindQuote:
    wrong = ", ".join(_shortfalls(job, quote))
    return KindQuote(
        name=name,
        price_per_hour=_price(job),
        price_source=job.cluster.price_source,
        jct_seconds=quote.jct_seconds,
        cost=quote.cost,
        risk=quote.risk,
        iterations=None if isinstance(quote, Quote) else _iterations(quote),
        keeps=not wrong,
        why_not=wrong,
    )


def _iterations(quote: PolicyQuote) -> float:
    return quote.iterations if quote.risk is None else quote.risk.iterations


def _shortfalls(job: Job, quote: Quote | PolicyQuote) -> Iterator[str]:
    """A limit may yield; then there is a quote that does not keep it."""
    if isinstance(quote, Quote):
        seconds, usd = quote.jct_quantile_seconds, quote.cost_quantile
    else:
        seconds, usd = quote.jct_seconds, quote.cost
    if job.deadline is not None and seconds > job.deadline * (1 + _ROUNDING):
        yield f"{format_duration(seconds)} is later than the deadline"
    if job.budget is not None and usd > job.budget * (1 + _ROUNDING):
        yield f"{format_usd(usd)} is more than the budget"
    risk = quote.risk
    if risk is not None and risk.share_kept < job.confidence - _ROUNDING:
        if job.deadline is not None or job.budget is not None:
            yield f"keeps the limits in only {risk.kept} of {risk.rehearsals} rehearsals with interruptions"
        else:
            yield f"comes to its end in only {risk.kept} of {risk.rehearsals} rehearsals with interruptions"


def _infeasible(name: str, job: Job, error: InfeasibleError) -> KindQuote:
    return KindQuote(
        name=name,
        price_per_hour=_price(job),
        price_source=job.cluster.price_source,
        jct_seconds=None,
        cost=None,
        risk=None,
        iterations=None,
        keeps=False,
        why_not=str(error).splitlines()[0],
    )


def _price(job: Job) -> float:
    if job.cluster.price_per_hour is None:
        raise InvariantError("a job without a price was quoted")
    return job.cluster.price_per_hour


def _tell_none(compared: Sequence[KindQuote]) -> str:
    told = "\n".join(f"  {each.name}: {each.why_not}" for each in compared)
    return f"no kind of node keeps the limits:\n{told}"


# Who takes no money for its machines; the job's price is for the plan and the bill alone.
_FREE = ("local", "simulated")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    setup: RunSetup
    shipment: CodeShipment
    quote: Quote | PolicyQuote
    seed: int
    address: str | None = None  # an existing Ray cluster to use instead of own machines

    @property
    def predicted(self) -> Estimate:
        return Estimate(jct_seconds=self.quote.jct_seconds, cost=self.quote.cost)

    @property
    def spends_money(self) -> bool:
        return self.address is None and spends_money(self.setup.job)


def spends_money(job: Job) -> bool:
    """Whether somebody sends a bill for its nodes."""
    return job.cluster.provider not in _FREE


def prepare_run(job: Job, *, policy: str | None, seed: int, address: str | None) -> PreparedRun:
    """Raises `JobError` if the job cannot be run and `InfeasibleError` if its limits cannot be kept.

    A job with a choice between kinds of nodes is offered with the one that suits it best.
    """
    if job.cluster.kinds:
        return _best_of_kinds(job, policy=policy, seed=seed, address=address)
    needed = [name for name in ("ray", "fsspec", "cloudpickle") if importlib.util.find_spec(name) is None]
    if needed:
        raise JobError(f"a real run needs {', '.join(needed)}; pip install 'elastune[ray]'")
    if job.logging is not None:
        check_loggers(job.logging)
    job = with_price(job)
    if address is None and spends_money(job) and job.storage is None:
        raise JobError(
            f"storage is missing: nodes of {job.cluster.provider} are other machines, where checkpoints "
            "cannot lie in the run's folder; expected storage: s3://bucket/prefix, or a folder that all "
            "machines share"
        )
    setup = prepare(job, policy, purpose=SetupPurpose.RUN)
    shipment = ship(setup.job, setup.tuning.metric)
    if shipment.most_slots is not None:
        narrowed = _narrowed(job, shipment.most_slots)
        setup = setup if narrowed is job else prepare(narrowed, policy, purpose=SetupPurpose.RUN)
    quote = with_risk(quote_setup(setup), setup)
    return PreparedRun(setup=setup, shipment=shipment, quote=quote, seed=seed, address=address)


def _best_of_kinds(job: Job, *, policy: str | None, seed: int, address: str | None) -> PreparedRun:
    if policy == MEASURING:
        raise JobError(
            "cluster.kinds has several kinds of nodes, and a training is measured on one; expected a job "
            "without kinds, whose cluster is that one"
        )
    chosen = choose_kind(
        job,
        lambda each: prepare_run(each, policy=policy, seed=seed, address=address),
        lambda prepared: prepared.quote,
    )
    return replace(chosen.prepared, quote=replace(chosen.prepared.quote, kinds=chosen.kinds))


def quote_setup(setup: RunSetup) -> Quote | PolicyQuote:
    if setup.quote is None:
        return quote_of(setup)
    target = setup.job.stop_when
    return replace(setup.quote, why=str(setup.choice), stop_when=None if target is None else str(target))


def _narrowed(job: Job, most: int) -> Job:
    """A trainable that cannot use more slots does not get them."""
    search = job.search
    if search.min_slots_per_trial > most:
        raise JobError(
            f"search.min_slots_per_trial is {search.min_slots_per_trial}, but the trainable can use "
            f"{most} at most (its `most_slots`)"
        )
    given = search.max_slots_per_trial
    if given is not None and given <= most:
        return job
    return job.model_copy(update={"search": search.model_copy(update={"max_slots_per_trial": most})})


def prepare_best_kind(job: Job, policy: str | None = None) -> RunSetup:
    """For a simulation. A job without a choice of nodes is prepared as it is."""
    if not job.cluster.kinds:
        return prepare(job, policy)
    chosen = choose_kind(
        job, lambda each: prepare(each, policy), lambda setup: with_risk(quote_setup(setup), setup)
    )
    return chosen.prepared
