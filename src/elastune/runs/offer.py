"""What is offered before a real run: the trainable opened, the search planned, time and money predicted."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace

from elastune.errors import JobError
from elastune.job import Job
from elastune.planning import Quote
from elastune.runs.interruptions import with_risk
from elastune.runs.kinds import choose_kind
from elastune.runs.logger import check_loggers
from elastune.runs.pricing import with_price
from elastune.runs.quoting import PolicyQuote, quote_of
from elastune.runs.result import Estimate
from elastune.runs.script import Shipment, ship
from elastune.runs.setup import MEASURING, Purpose, RunSetup, prepare

# Who takes no money for its machines; the job's price is for the plan and the bill alone.
_FREE = ("local", "simulated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    setup: RunSetup
    shipment: Shipment
    quote: Quote | PolicyQuote
    seed: int
    address: str | None = None
    """Of a Ray cluster to use instead of machines of our own."""

    @property
    def predicted(self) -> Estimate:
        return Estimate(jct_seconds=self.quote.jct_seconds, cost=self.quote.cost)

    @property
    def spends_money(self) -> bool:
        return self.address is None and spends_money(self.setup.job)


def spends_money(job: Job) -> bool:
    """Whether somebody sends a bill for its nodes."""
    return job.cluster.provider not in _FREE


def make_offer(job: Job, *, policy: str | None, seed: int, address: str | None) -> Offer:
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
    setup = prepare(job, policy, purpose=Purpose.RUN)
    shipment = ship(setup.job, setup.tuning.metric)
    if shipment.most_slots is not None:
        narrowed = _narrowed(job, shipment.most_slots)
        setup = setup if narrowed is job else prepare(narrowed, policy, purpose=Purpose.RUN)
    quote = with_risk(quote_setup(setup), setup)
    return Offer(setup=setup, shipment=shipment, quote=quote, seed=seed, address=address)


def _best_of_kinds(job: Job, *, policy: str | None, seed: int, address: str | None) -> Offer:
    if policy == MEASURING:
        raise JobError(
            "cluster.kinds has several kinds of nodes, and a training is measured on one; expected a job "
            "without kinds, whose cluster is that one"
        )
    chosen = choose_kind(
        job,
        lambda each: make_offer(each, policy=policy, seed=seed, address=address),
        lambda offer: offer.quote,
    )
    return replace(chosen.offer, quote=replace(chosen.offer.quote, kinds=chosen.kinds))


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
