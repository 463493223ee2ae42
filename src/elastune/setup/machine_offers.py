"""What each kind of node of a job costs now, how long it is waited for, and how many there may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from elastune.errors import JobError
from elastune.job.cluster import ClusterSection
from elastune.job.job import Job
from elastune.providers.registry import is_elsewhere, queue_lookup
from elastune.setup.run_setup import interruptions_per_hour, with_price


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOffer:
    """One kind. What is None is not known, and `problem` says why."""

    kind: str
    provider: str
    slots: int
    max_nodes: int
    usd_per_hour: float | None = None
    price_source: str | None = None
    wait_s: float | None = None
    """Mean time in the queue."""
    boot_s: float | None = None
    interruptions_per_hour: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOffers:
    offers: tuple[MachineOffer, ...]

    def to_dict(self) -> dict[str, object]:
        return {"machines": [asdict(offer) for offer in self.offers]}


def machine_offers(job: Job) -> MachineOffers:
    """In the order of the job. Providers are asked; a wrong option is a problem of that kind alone."""
    return MachineOffers(offers=tuple(_offers(job)))


def _offers(job: Job) -> Iterator[MachineOffer]:
    kinds = job.cluster.kinds
    if not kinds:
        yield _offer(job.cluster.provider, job)
    for kind in kinds:
        yield _offer(kind.name, job.of_kind(kind))


def _offer(name: str, job: Job) -> MachineOffer:
    try:
        priced = with_price(job)
        risk = interruptions_per_hour(priced)
    except JobError as error:
        return MachineOffer(**_plain(name, job.cluster), problem=str(error))
    cluster = priced.cluster
    is_asked = queue_lookup(cluster.provider) is not None and "queue" not in job.cluster.model_fields_set
    is_measured = not is_elsewhere(cluster.provider) or "init" in cluster.model_fields_set
    is_unknown = is_asked and cluster.queue is job.cluster.queue
    return MachineOffer(
        **_plain(name, cluster),
        usd_per_hour=cluster.price_per_hour,
        price_source=cluster.price_source,
        wait_s=None if is_unknown else cluster.queue.mean,
        boot_s=cluster.init.mean if is_measured else None,
        interruptions_per_hour=risk,
    )


def _plain(name: str, cluster: ClusterSection) -> dict[str, Any]:
    return {
        "kind": name,
        "provider": cluster.provider,
        "slots": cluster.slots_per_node,
        "max_nodes": cluster.most_nodes,
    }
