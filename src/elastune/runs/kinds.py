"""Which kind of node a job gets: it is quoted with each, and the cheapest that keeps its limits is taken.

With a budget and no deadline it is the fastest. A search that decides while it runs goes as far as its limits
let it, and a node that is slow enough is always cheap: so of its kinds only those count on which about as
much is trained as on the best. Where nodes may be taken away, the figures are those of the
rehearsals with interruptions, and a kind that keeps the limits less often than the job's confidence is taken
only if none is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from elastune.errors import InfeasibleError, InvariantError
from elastune.job import Job
from elastune.planning import Objective, Quote
from elastune.planning.kinds import KindQuote
from elastune.runs.pricing import with_price
from elastune.runs.quoting import PolicyQuote
from elastune.units import format_duration, format_usd

T = TypeVar("T")
_ROUNDING = 1e-9
# What counts as the same amount of training.
_ABOUT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Generic[T]):
    """`job` is a plain one; `offer` is what was made of it; `kinds` compares them all."""

    job: Job
    offer: T
    kinds: tuple[KindQuote, ...]


def choose_kind(
    job: Job, offer: Callable[[Job], T], quote_of: Callable[[T], Quote | PolicyQuote]
) -> Chosen[T]:
    """`offer` quotes a plain job, or raises `InfeasibleError`; so does this if no kind keeps the limits."""
    compared: list[KindQuote] = []
    offers: dict[str, tuple[Job, T]] = {}
    by_time = job.deadline is None and job.budget is not None
    for kind in job.cluster.kinds:
        plain = with_price(job.of_kind(kind))
        try:
            made = offer(plain)
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
    return Chosen(job=plain, offer=made, kinds=kinds)


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
