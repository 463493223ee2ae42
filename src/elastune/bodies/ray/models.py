"""Where the newest model of every trial is, as far as the driver knows: by name, not the bytes."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from elastune.bodies.ray.messages import Model
from elastune.core.commands import Train
from elastune.place import NodeId, Slot, TrialId


class Lodged(NamedTuple):
    model: Model
    slot: Slot


class Models:
    """One per trial: the one before is given up when the next comes."""

    def __init__(self) -> None:
        self._lodged: dict[TrialId, Lodged] = {}

    def lodge(self, model: Model, slot: Slot) -> bool:
        """The newest of its trial; returns whether it came from another slot."""
        trial = TrialId(model.trial)
        before = self._lodged.get(trial)
        self._lodged[trial] = Lodged(model, slot)
        return before is not None and before.slot != slot

    def find(self, lease: Train) -> Lodged | None:
        """The model that a visit goes on with, and where it is; None: only the store has it."""
        visits = 0 if lease.visit is None else lease.visit.done
        owner = lease.trial if lease.origin is None or visits else lease.origin
        lodged = self._lodged.get(owner)
        if lodged is None or (lodged.model.iteration, lodged.model.visits) != (lease.after_iteration, visits):
            return None
        return lodged

    def newest(self, trial: TrialId, *, elsewhere_than: Slot | None = None) -> Model | None:
        """If it has to hop to get there."""
        lodged = self._lodged.get(trial)
        return None if lodged is None or lodged.slot == elsewhere_than else lodged.model

    def forget(self, trial: TrialId) -> None:
        self._lodged.pop(trial, None)

    def forget_node(self, node: NodeId) -> None:
        """What lay there is gone; where it is durable, the store has it."""
        for trial in [trial for trial, lodged in self._lodged.items() if lodged.slot.node == node]:
            del self._lodged[trial]

    def forget_others(self, living: Container[TrialId]) -> None:
        """Nobody goes on with the models of trials that are over."""
        for trial in [trial for trial in self._lodged if trial not in living]:
            del self._lodged[trial]
