"""What the driver knows of a gang."""

from __future__ import annotations

from elastune.bodies.ray.messages import GangId
from elastune.core.commands import Train
from elastune.place import NodeId

# Its slots may have to be started anew and to import everything.
_FORMING_PATIENCE_S = 120.0


class RealGang:
    def __init__(self, lease: Train, now_s: float, patience_s: float) -> None:
        """`patience_s`: how long nothing may be heard of it once it trains."""
        self.lease = lease
        self.id = GangId(lease.trial, lease.generation)
        self.busy = True
        """It forms, trains or saves: something is to be heard of it before long."""
        self.heard_s = now_s
        self.patience_s = max(patience_s, _FORMING_PATIENCE_S)
        self._training_patience_s = patience_s
        self.awaits: NodeId | None = None
        """The node from which its model has to come, until it is there."""

    def started(self) -> None:
        self.patience_s = self._training_patience_s
        self.awaits = None

    def is_hung(self, now_s: float) -> bool:
        return self.busy and now_s - self.heard_s > self.patience_s
