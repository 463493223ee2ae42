"""Prepares a real run: opens the trainable, plans the search, predicts time and cost, chooses the node kind.

A job with several node kinds is quoted with each, and gets the cheapest that keeps its limits; with a budget
and no deadline, the fastest. A search that decides during the run goes as far as its limits allow, and a slow
enough node is always cheap, so for it only those kinds count that train about as much as the best one. With
spot risk the figures are those of the simulations with interruptions, and a kind that keeps the limits less
often than the job's confidence is chosen only if none is better.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from elastune.errors import InfeasibleError, InvariantError, JobError
from elastune.history.result import Estimate
from elastune.job.job import Job
from elastune.job.sampling import SamplerSection
from elastune.job.search_options import GridSearch, RandomSearch
from elastune.model.limits import Objective
from elastune.planning.quote import KindQuote, Quote
from elastune.providers.registry import is_elsewhere
from elastune.runs.callbacks import check_callbacks
from elastune.runs.code_bundle import CodeShipment, ship
from elastune.runs.listeners import check_loggers
from elastune.runs.quotes.expected_run import expected_of
from elastune.runs.quotes.policy_quote import PolicyQuote
from elastune.runs.quotes.quoting import quote_of, with_simulations
from elastune.runs.quotes.warnings import quote_warnings
from elastune.setup.run_setup import MEASURING, RunSetup, SetupPurpose, prepare, require_end, with_price
from elastune.wording import format_duration, format_usd

T = TypeVar("T")
_ROUNDING = 1e-9
# At least this share of the best counts as the same amount of training.
_ABOUT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Generic[T]):
    """`job` has the chosen kind only; `prepared` is made from it; `kinds` compares all kinds."""

    job: Job
    prepared: T
    kinds: tuple[KindQuote, ...]


def choose_kind(
    job: Job, prepare: Callable[[Job], T], quote_of: Callable[[T], Quote | PolicyQuote]
) -> Chosen[T]:
    """`prepare` prepares a job of one kind. Raises `InfeasibleError` if no kind keeps the limits."""
    compared: list[KindQuote] = []
    feasible: dict[str, tuple[Job, T]] = {}
    for kind in job.cluster.kinds:
        plain = with_price(job.of_kind(kind))
        try:
            prepared = prepare(plain)
        except InfeasibleError as error:
            compared.append(_kind_quote(kind.name, plain, None, str(error).splitlines()[0]))
            continue
        quote = quote_of(prepared)
        feasible[kind.name] = (plain, prepared)
        compared.append(_kind_quote(kind.name, plain, quote, ", ".join(_shortfalls(plain, quote))))
    if not feasible:
        reasons = "\n".join(f"  {each.name}: {each.why_not}" for each in compared)
        raise InfeasibleError(f"no kind of node keeps the limits:\n{reasons}")
    quoted = [each for each in compared if each.name in feasible]
    only_budget = job.deadline is None and job.budget is not None
    by_time = only_budget or _are_planned_for_time(quoted)
    best = min(_worthwhile(quoted), key=lambda each: _rank(each, by_time=by_time))
    plain, prepared = feasible[best.name]
    kinds = tuple(replace(each, chosen=each is best) for each in compared)
    return Chosen(job=plain, prepared=prepared, kinds=kinds)


def _are_planned_for_time(kinds: Sequence[KindQuote]) -> bool:
    """A kind whose plan exceeds a limit, because it may, can have another objective than the others."""
    keeping = [kind for kind in kinds if kind.keeps] or kinds
    return all(kind.objective is Objective.TIME for kind in keeping)


def _worthwhile(kinds: Sequence[KindQuote]) -> Sequence[KindQuote]:
    """Those on which the search gets about as far as possible within the limits."""
    keeping = [kind for kind in kinds if kind.keeps] or kinds
    most = max(kind.iterations or 0.0 for kind in keeping)
    return [kind for kind in keeping if kind.iterations is None or kind.iterations >= most * _ABOUT]


def _rank(kind: KindQuote, *, by_time: bool) -> tuple[bool, float, float, float]:
    cost, seconds = kind.expected_cost, kind.expected_seconds
    kept = 0.0 if kind.keeps or kind.risk is None else -kind.risk.share_kept
    return (not kind.keeps, kept, *((seconds, cost) if by_time else (cost, seconds)))


def _kind_quote(name: str, job: Job, quote: Quote | PolicyQuote | None, why_not: str) -> KindQuote:
    if job.cluster.price_per_hour is None:
        raise InvariantError(f"the job for {name} has no price; expected one from with_price")
    iterations = None
    if isinstance(quote, PolicyQuote):
        iterations = quote.iterations if quote.risk is None else quote.risk.iterations
    return KindQuote(
        name=name,
        price_per_hour=job.cluster.price_per_hour,
        price_source=job.cluster.price_source,
        jct_seconds=None if quote is None else quote.jct_seconds,
        cost=None if quote is None else quote.cost,
        risk=None if quote is None else quote.risk,
        iterations=iterations,
        keeps=quote is not None and not why_not,
        why_not=why_not,
        objective=quote.objective if isinstance(quote, Quote) else None,
        lower_bound=quote.lower_bound if isinstance(quote, Quote) else None,
    )


def _shortfalls(job: Job, quote: Quote | PolicyQuote) -> Iterator[str]:
    """If the job lets a limit yield, its quote may exceed that limit."""
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
        is_limited = job.deadline is not None or job.budget is not None
        does = "keeps the limits" if is_limited else "finishes"
        yield f"{does} in only {risk.kept} of {risk.rehearsals} simulations with interruptions"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    setup: RunSetup
    shipment: CodeShipment
    quote: Quote | PolicyQuote
    seed: int
    address: str | None = None  # an existing Ray cluster to use instead of own machines

    @property
    def predicted(self) -> Estimate:
        quote = self.quote
        return expected_of(quote) if isinstance(quote, Quote) else quote.predicted

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known before it starts."""
        return tuple(quote_warnings(self.setup.job, self.quote, address=self.address))

    @property
    def spends_money(self) -> bool:
        return self.address is None and spends_money(self.setup.job)


def spends_money(job: Job) -> bool:
    """The price of local and simulated nodes is only for the plan and the cost shown: no bill comes."""
    return is_elsewhere(job.cluster.provider) and job.cluster.price_per_hour != 0.0


def prepare_run(job: Job, *, policy: str | None, seed: int, address: str | None) -> PreparedRun:
    """Raises `JobError` if the job cannot be run and `InfeasibleError` if its limits cannot be kept.

    A job with several node kinds is prepared with the best of them.
    """
    if job.cluster.kinds:
        return _best_of_kinds(job, policy=policy, seed=seed, address=address)
    needed = [name for name in ("ray", "fsspec", "cloudpickle") if importlib.util.find_spec(name) is None]
    if needed:
        raise JobError(f"a real run needs {', '.join(needed)}; pip install 'elastune[ray]'")
    if job.logging is not None:
        check_loggers(job.logging)
    check_callbacks(job.callbacks)
    job = with_price(job)
    if address is None and is_elsewhere(job.cluster.provider) and job.storage is None:
        raise JobError(
            f"storage is missing: nodes of {job.cluster.provider} are other machines, which cannot write "
            "checkpoints to the run's folder; expected storage: s3://bucket/prefix, or a folder that all "
            "machines share"
        )
    setup = prepare(job, policy, purpose=SetupPurpose.RUN)
    shipment = ship(setup.job, setup.tuning.metric)
    suited = suit(job, shipment)
    setup = setup if suited is job else prepare(suited, policy, purpose=SetupPurpose.RUN)
    quote = with_simulations(quote_setup(setup), setup)
    return PreparedRun(setup=setup, shipment=shipment, quote=quote, seed=seed, address=address)


def _best_of_kinds(job: Job, *, policy: str | None, seed: int, address: str | None) -> PreparedRun:
    if policy == MEASURING:
        raise JobError(
            "cluster.kinds names several kinds of nodes, but a training is measured on one; expected a job "
            "with that kind as its cluster and without kinds"
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


def suit(job: Job, shipment: CodeShipment) -> Job:
    """The job with what its trainable can do: the slots that it can use, whether it can be saved, and whether
    one call is all. Raises `JobError` if that contradicts the job."""
    recipe = shipment.recipe
    if job.saves and not recipe.saves:
        raise JobError(
            f"saves is true, but {recipe.name} cannot be saved; add save and load, or leave `saves` out: "
            "without them, a trial trains again from the beginning when it continues"
        )
    if not recipe.saves and job.saves is None and job.fidelity is None:
        job = job.model_copy(update={"saves": False})
    if recipe.is_call and job.fidelity is None:
        job = _with_one_call(job, recipe.name)
    require_end(job)
    return job if shipment.most_slots is None else narrowed(job, shipment.most_slots)


def _with_one_call(job: Job, name: str) -> Job:
    """A function that returns its metrics trains once: one iteration."""
    search = job.search
    if not job.declares_search:
        sampler = search.sampler or SamplerSection(kind="tpe")
        return job.with_search(RandomSearch.model_validate({"max_iterations": 1, "sampler": sampler}))
    most = getattr(search, "max_iterations", 1)
    # Of a search that is only a name, the iterations are ours to choose.
    if most is None or (job.names_search_only and isinstance(search, RandomSearch | GridSearch)):
        return job.model_copy(update={"search": search.model_copy(update={"max_iterations": 1})})
    if most != 1:
        found = f"search.max_iterations is {most}"
        todo = "set it to 1"
        if job.names_search_only:
            found, todo = (
                f"search is {search.algorithm}, which stops trainings early",
                "choose random or grid",
            )
        raise JobError(
            f"{found}, but {name} returns its metrics, so it is called once; {todo}, or name the argument "
            "that tells the function how much to train, such as fidelity: epochs"
        )
    return job


def narrowed(job: Job, most: int) -> Job:
    """Limit the slots per trial to what the trainable can use."""
    search = job.search
    if search.min_slots_per_trial > most:
        raise JobError(
            f"search.min_slots_per_trial is {search.min_slots_per_trial}; expected at most {most}, which is "
            "what the trainable can use: its `most_slots`, or what `elastune check` has shown"
        )
    given = search.max_slots_per_trial
    if given is not None and given <= most:
        return job
    return job.model_copy(update={"search": search.model_copy(update={"max_slots_per_trial": most})})


def prepare_best_kind(job: Job, policy: str | None = None) -> RunSetup:
    """For a simulation; of several node kinds, with the best."""
    if not job.cluster.kinds:
        return prepare(job, policy)
    return choose_kind(
        job, lambda each: prepare(each, policy), lambda setup: with_simulations(quote_setup(setup), setup)
    ).prepared
