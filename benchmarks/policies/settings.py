"""Where the policies are compared: a table, a scaling law, a deadline, a budget, and whether nodes boot.

The deadline is a number of complete trainings on one slot, the budget a number of slots until then. Without
boots, slots are paid by the second, as SEER counts GPU minutes, and nothing takes time except training. With
boots, whole nodes of four slots are paid by the second, for a minute at least; they wait in a queue and boot,
and trials take time to start and to save.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.policies.curves import ITERATION_S, CurveSet
from benchmarks.policies.scaling import Law

SLOTS_PER_NODE = 4
USD_PER_SLOT_HOUR = 1.0
# Far more than any of them asks for: the cloud has them.
MOST_NODES = 128
DEADLINES = (0.25, 1.0, 3.0)
SLOTS = (4, 16, 64)
QUEUE_S = 15.0
INIT_S = 60.0
STARTUP_S = 5.0
SAVE_S = 1.0
MINIMUM_CHARGE_S = 60.0
_CELL = re.compile(r"(?P<trainings>[0-9.]+)x(?P<slots>[0-9]+)(?P<boots>\+boots)?")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Terms:
    """One cell of the comparison; written `1x16`, or `1x16+boots`."""

    boots: bool = False
    trainings: float
    slots: int

    def __str__(self) -> str:
        return f"{self.trainings:g}x{self.slots}{'+boots' if self.boots else ''}"

    @classmethod
    def parse(cls, text: str) -> Terms:
        match = _CELL.fullmatch(text.strip())
        if match is None or int(match["slots"]) % SLOTS_PER_NODE:
            raise ValueError(
                f"the cell is {text!r}; expected trainings x slots, with slots a multiple of "
                f"{SLOTS_PER_NODE}, such as 1x16 or 0.25x4+boots"
            )
        return cls(
            trainings=float(match["trainings"]), slots=int(match["slots"]), boots=match["boots"] is not None
        )

    @property
    def boot_s(self) -> float:
        return QUEUE_S + INIT_S if self.boots else 0.0

    @property
    def startup_s(self) -> float:
        return STARTUP_S if self.boots else 0.0


def all_cells(*, boots: bool = False) -> list[Terms]:
    return [
        Terms(trainings=trainings, slots=slots, boots=boots) for trainings in DEADLINES for slots in SLOTS
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A cell on one table, with one scaling law."""

    curves: CurveSet
    law: Law
    terms: Terms

    @property
    def deadline_s(self) -> float:
        return self.terms.trainings * self.curves.training_s

    @property
    def budget_usd(self) -> float:
        return self.terms.slots * self.deadline_s / 3600.0 * USD_PER_SLOT_HOUR

    @property
    def clairvoyant(self) -> float:
        """Trains only the best configuration, with the best gang that the budget pays for; nothing boots."""
        return self.curves.clairvoyant(self.deadline_s, self.law.best(self.terms.slots))

    def regret(self, value: float | None) -> float:
        return self.curves.regret(value, self.clairvoyant)

    def job_terms(self, *, elastic: bool) -> dict[str, object]:
        """Limits, speed and machines: nodes as the budget pays for them, or those that it pays for until the
        deadline from the beginning on."""
        profile: dict[str, object] = {"iteration": ITERATION_S, "speedup": dict(self.law.speedup)}
        if self.terms.boots:
            profile |= {"startup": STARTUP_S, "save": SAVE_S}
        machines: Mapping[str, object] = (
            {"max_nodes": MOST_NODES} if elastic else {"nodes": self.terms.slots // SLOTS_PER_NODE}
        )
        return {
            "deadline": self.deadline_s,
            "profile": profile,
            "cluster": {**_prices(boots=self.terms.boots), **machines},
            **({"budget": self.budget_usd} if elastic else {}),
        }


def _prices(*, boots: bool) -> dict[str, object]:
    by_slot: dict[str, object] = {"billing": "function", "minimum_charge": 0}
    by_node: dict[str, object] = {
        "billing": "instance",
        "minimum_charge": MINIMUM_CHARGE_S,
        "queue": QUEUE_S,
        "init": INIT_S,
    }
    return {
        "slots_per_node": SLOTS_PER_NODE,
        "price_per_hour": USD_PER_SLOT_HOUR * SLOTS_PER_NODE,
        **(by_node if boots else by_slot),
    }
