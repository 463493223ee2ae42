"""The policies that are compared on recorded curves, each with the machines that the same money buys.

Those of a fixed cluster have as many slots as the budget pays for until the deadline (SEER, section 6.3); the
elastic ones have the budget. Eta is 4 for all (SEER's and HyperSched's); a round of SEER takes an iteration
on one slot at least, and so does the first rung of the others. BOHB's model would propose
configurations that no table has; with rows of the table instead it is Hyperband, as published. SHA is run by
RubberBand: with as many trials as can be trained for that money by then, the last one for as many iterations
as one slot manages until the deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.policies.curves import ITERATION_S, CurveSet
from benchmarks.policies.scaling import Law
from benchmarks.policies.simulating import JobDict, is_feasible

SLOTS_PER_NODE = 4
USD_PER_SLOT_HOUR = 1.0
# Far more than any of them asks for: the cloud has them.
MOST_NODES = 128
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
    is_planned: bool = False
    """Whether the number of its trials has to be found."""


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
    Contestant(
        name="sha",
        search={"algorithm": "sha", "eta": ETA, "min_iterations": 1},
        elastic=True,
        is_planned=True,
    ),
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
)


class Jobs:
    """Makes jobs, and remembers how many trials of SHA fit, which is the same for all tables of a length."""

    def __init__(self) -> None:
        self._trials: dict[tuple[str, int, int, int], int] = {}

    def of(self, contestant: Contestant, setting: Setting, curves: CurveSet, law: Law) -> JobDict:
        search = {**contestant.search, "sampler": {"kind": "table", "replace": True}}
        if contestant.has_rungs:
            search["max_iterations"] = curves.longest
        if contestant.is_planned:
            search |= self._sized(contestant, setting, curves, law)
        return {
            "trainable": {"curves": str(curves.path)},
            "metric": curves.metric,
            "mode": curves.mode,
            "search": search,
            **_terms(setting, law, elastic=contestant.elastic),
        }

    def _sized(
        self, contestant: Contestant, setting: Setting, curves: CurveSet, law: Law
    ) -> dict[str, object]:
        """The most trials that keep the deadline and the budget."""
        longest = min(curves.longest, int(setting.deadline_s / ITERATION_S))
        key = (law.name, setting.deadline_min, setting.slots, longest)
        if key not in self._trials:
            terms = _terms(setting, law, elastic=True)
            search = {**contestant.search, "max_iterations": longest}
            low, high = 1, 2 * setting.slots * setting.deadline_min
            while low < high:
                middle = (low + high + 1) // 2
                if is_feasible({**terms, "search": {**search, "trials": middle}}):
                    low = middle
                else:
                    high = middle - 1
            self._trials[key] = low
        return {"max_iterations": longest, "trials": self._trials[key]}


def _terms(setting: Setting, law: Law, *, elastic: bool) -> dict[str, object]:
    """Limits, speed and machines. Slots are paid by the second, as SEER counts GPU minutes; nothing boots."""
    cluster: dict[str, object] = {
        "slots_per_node": SLOTS_PER_NODE,
        "price_per_hour": USD_PER_SLOT_HOUR * SLOTS_PER_NODE,
        "billing": "function",
        "minimum_charge": 0,
    }
    terms: dict[str, object] = {
        "deadline": setting.deadline_s,
        "profile": {"iteration": ITERATION_S, "speedup": dict(law.speedup)},
    }
    if elastic:
        return {**terms, "budget": setting.budget_usd, "cluster": {**cluster, "max_nodes": MOST_NODES}}
    return {**terms, "cluster": {**cluster, "nodes": setting.slots // SLOTS_PER_NODE}}
