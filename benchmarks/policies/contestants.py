"""The policies that are compared on recorded curves, each with the machines that the same money buys.

Those of a fixed cluster have as many slots as the budget pays for until the deadline (SEER, section 6.3); the
elastic ones have the budget. Eta is 4 for all (SEER's and HyperSched's); a round of SEER takes an iteration
on one slot at least, and so does the first rung of the others. BOHB's model would propose
configurations that no table has; with rows of the table instead it is Hyperband, as published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.policies.curves import ITERATION_S, CurveSet
from benchmarks.policies.scaling import Law
from benchmarks.policies.simulating import JobDict

SLOTS_PER_NODE = 4
USD_PER_SLOT_HOUR = 1.0
# Far more than any of them asks for: the cloud has them.
MOST_NODES = 512
ETA = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`slots` times the deadline is the budget."""

    table: str
    law: str
    deadline_min: int
    slots: int

    @property
    def deadline_s(self) -> float:
        return self.deadline_min * 60.0

    @property
    def budget_usd(self) -> float:
        return self.slots * self.deadline_s / 3600.0 * USD_PER_SLOT_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    name: str
    search: Mapping[str, object]
    elastic: bool
    has_rungs: bool = False
    """Whether it needs to know how long a training is."""


def _seer(name: str, **options: object) -> Contestant:
    search = {"algorithm": "seer", "eta": ETA, "min_round": ITERATION_S, **options}
    return Contestant(name=name, search=search, elastic=True)


def _rungs(name: str, algorithm: str, **options: object) -> Contestant:
    search = {"algorithm": algorithm, "eta": ETA, "min_iterations": 1, **options}
    return Contestant(name=name, search=search, elastic=False, has_rungs=True)


CONTESTANTS = (
    _rungs("hypersched", "hypersched"),
    _rungs("asha", "asha"),
    _rungs("hyperband", "bohb", repeat=True),
    _seer("seer"),
    Contestant(
        name="e-hyperband",
        search={"algorithm": "e-hyperband", "eta": ETA, "min_round": ITERATION_S},
        elastic=True,
    ),
    Contestant(name="e-grid", search={"algorithm": "e-grid"}, elastic=True),
    Contestant(name="random", search={"algorithm": "random"}, elastic=False),
)
SEER_VARIANTS = (
    _seer("seer, elimination: bracket", elimination="bracket"),
    _seer("seer, spend_leftover: false", spend_leftover=False),
    _seer("seer, max_slots_per_trial: 4", max_slots_per_trial=4),
)


def job_of(contestant: Contestant, setting: Setting, curves: CurveSet, law: Law) -> JobDict:
    search = {**contestant.search, "sampler": {"kind": "table", "replace": True}}
    if contestant.has_rungs:
        search["max_iterations"] = curves.longest
    cluster: dict[str, object] = {
        "slots_per_node": SLOTS_PER_NODE,
        "price_per_hour": USD_PER_SLOT_HOUR * SLOTS_PER_NODE,
        "billing": "function",
        "minimum_charge": 0,
    }
    job: dict[str, object] = {
        "trainable": {"curves": str(curves.path)},
        "metric": curves.metric,
        "mode": curves.mode,
        "search": search,
        "deadline": setting.deadline_s,
        "profile": {"iteration": ITERATION_S, "speedup": dict(law.speedup)},
    }
    if contestant.elastic:
        return {**job, "budget": setting.budget_usd, "cluster": {**cluster, "max_nodes": MOST_NODES}}
    return {**job, "cluster": {**cluster, "nodes": setting.slots // SLOTS_PER_NODE}}
