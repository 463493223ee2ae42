"""What came of all policies on recorded curves, and its means."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from benchmarks.policies.averages import Average, average, difference
from benchmarks.policies.contestants import Setting

Key = tuple[Setting, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the settings; None: whatever it is."""

    deadline_min: int | None = None
    slots: int | None = None
    tables: Collection[str] | None = None

    def has(self, setting: Setting) -> bool:
        return (
            self.deadline_min in (None, setting.deadline_min)
            and self.slots in (None, setting.slots)
            and (self.tables is None or setting.table in self.tables)
        )


EVERYWHERE = Part()


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Regrets and shares of the budget by setting and contestant, one of each per seed.

    Every scaling law has seeds of its own: with the same ones it would be the same luck three times.
    """

    regrets: Mapping[Key, tuple[float, ...]]
    used: Mapping[Key, tuple[float, ...]]
    trials: Mapping[Key, tuple[int, ...]]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for _, name in self.regrets))

    @property
    def tables(self) -> list[str]:
        return list(dict.fromkeys(setting.table for setting, _ in self.regrets))

    @property
    def deadlines_min(self) -> list[int]:
        return sorted({setting.deadline_min for setting, _ in self.regrets})

    @property
    def slots(self) -> list[int]:
        return sorted({setting.slots for setting, _ in self.regrets})

    @property
    def seeds(self) -> int:
        return len(next(iter(self.regrets.values())))

    def regret(self, name: str, where: Part = EVERYWHERE) -> Average:
        return average(self._blocks(name, where))

    def gain(self, name: str, other: str) -> Average:
        """By how much the first regrets less."""
        return difference(self._blocks(other), self._blocks(name))

    def share_used(self, name: str) -> float:
        return average([x for (_, who), used in self.used.items() if who == name for x in used]).mean

    def trials_started(self, name: str) -> float:
        return average([x for (_, who), trials in self.trials.items() if who == name for x in trials]).mean

    def _blocks(self, name: str, where: Part = EVERYWHERE) -> list[float]:
        """Means by table, law and seed: where the same configurations are drawn it is one piece of luck."""
        blocks: dict[tuple[str, str], list[tuple[float, ...]]] = {}
        for (setting, who), regrets in self.regrets.items():
            if who == name and where.has(setting):
                blocks.setdefault((setting.table, setting.law), []).append(regrets)
        return [average(seed).mean for each in blocks.values() for seed in zip(*each, strict=True)]
