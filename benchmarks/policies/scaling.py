"""Measured speed-ups: AdaptDL's step times by placement, gangs on as few nodes of four GPUs as hold them.

The batch per GPU is the same on any number of GPUs, one from the middle of what was measured; so an epoch has
fewer steps on more of them. Two nodes of four were measured slower than one for BERT. A gang need not use all
that it has, so a speed-up never falls.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.policies.curves import DATA, NoDataError

PLACEMENTS = {1: "1", 2: "2", 4: "4", 8: "44", 12: "444", 16: "4444"}
BATCHES = {"cifar10": 182, "bert": 8, "imagenet": 81}


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    name: str
    speedup: Mapping[int, float]

    def best(self, slots: int) -> float:
        """With as many of these slots as help."""
        return max(speed for count, speed in self.speedup.items() if count <= slots)


def load_laws(data: Path = DATA) -> list[Law]:
    return [_load(data / "scaling" / f"{name}-placements.csv", name) for name in BATCHES]


def _load(path: Path, name: str) -> Law:
    if not path.is_file():
        raise NoDataError(
            f"{path} is absent; it comes with the measurements in shared/data, not with the project"
        )
    with path.open(encoding="utf-8") as file:
        steps_s = {
            row["placement"]: float(row["step_time"])
            for row in csv.DictReader(file)
            if int(row["local_bsz"]) == BATCHES[name]
        }
    speedup: dict[int, float] = {}
    for slots, placement in PLACEMENTS.items():
        measured = slots * steps_s["1"] / steps_s[placement]
        speedup[slots] = max([measured, *speedup.values()])
    return Law(name=name, speedup=speedup)
