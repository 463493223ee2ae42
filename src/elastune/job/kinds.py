"""Kinds of nodes: alternatives of which the cheapest that keeps the limits is taken.

A kind says what differs from the rest of `cluster`. Once one is chosen the job goes on as a plain one, so
nobody who runs it has to know that there was a choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from elastune.job.latencies import Latency
from elastune.job.profile import AnyProfile
from elastune.job.section import Section
from elastune.quantities import Count, ExpectedError, Money, Word, number

# What a cluster may leave out where every kind has it.
_EACH_ITS_OWN = ("slots_per_node", "price_per_hour")
_MOST_INTERRUPTIONS = 60.0


def _options(written: object) -> dict[str, Any]:
    if isinstance(written, Mapping) and _is_plain(written):
        return dict(written)
    raise ExpectedError("a mapping of names to plain values, such as {instance_type: p3.8xlarge}")


def _is_plain(value: object) -> bool:
    """Whether a journal can keep it."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, str | int | float | bool)


def _interruptions(written: object) -> float:
    rate = number(written)
    if rate is None or not 0.0 <= rate <= _MOST_INTERRUPTIONS:
        raise ExpectedError(f"a number from 0 to {_MOST_INTERRUPTIONS:g}, such as 0.05 (once in 20 hours)")
    return rate


Options = Annotated[dict[str, Any], BeforeValidator(_options)]
Interruptions = Annotated[float, BeforeValidator(_interruptions)]


class KindSection(Section):
    """What is left out is as in `cluster`; `options` are merged over those of the cluster."""

    name: Word = Field(description="how the kind is called in the quote, such as p3.8xlarge")
    slots_per_node: Count | None = None
    price_per_hour: Money | None = None
    max_nodes: Count | None = None
    queue: Latency | None = None
    init: Latency | None = None
    options: Options = Field(default={})
    interruptions_per_hour: Interruptions | None = None
    profile: AnyProfile | None = None

    def overrides(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What changes in a cluster with these options."""
        names = ("slots_per_node", "price_per_hour", "max_nodes", "queue", "init", "interruptions_per_hour")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {**given, "options": {**options, **self.options}, "kinds": ()}


def written_kinds(cluster: object) -> Sequence[object]:
    """As they are in a job's data, right or wrong."""
    kinds = cluster.get("kinds") if isinstance(cluster, Mapping) else None
    return kinds if isinstance(kinds, list | tuple) else ()


def kinds_in(folder: Path, cluster: object) -> object:
    """A cluster as it was written in a job in `folder`, with the paths of profiles seen from here."""
    kinds = written_kinds(cluster)
    if not isinstance(cluster, Mapping) or not kinds:
        return cluster
    return {**cluster, "kinds": [_kind_in(folder, kind) for kind in kinds]}


def _kind_in(folder: Path, kind: object) -> object:
    if isinstance(kind, Mapping) and isinstance(kind.get("profile"), str | Path):
        return {**kind, "profile": folder / kind["profile"]}
    return kind


def filled(cluster: object) -> object:
    """Where every kind has its own, the cluster's does not matter, and is that of the first."""
    found = {key: shared for key in _EACH_ITS_OWN if (shared := first_of_all(cluster, key)) is not None}
    return {**found, **cluster} if found and isinstance(cluster, Mapping) else cluster


def first_of_all(cluster: object, key: str) -> object:
    """What the first kind has under this key; None: not every kind has it."""
    values = [
        kind.get(key) if isinstance(kind, Mapping) else getattr(kind, key, None)
        for kind in written_kinds(cluster)
    ]
    return values[0] if values and all(value is not None for value in values) else None
