"""What is agreed before a run and does not change while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from elastune.hopping.partitions import DataTerms
from elastune.model.checkpoint_rule import DEFAULT_INTERVAL_S, CheckpointRule
from elastune.model.cluster import ClusterTerms
from elastune.model.limits import GangLimits, Limit, Limits
from elastune.model.metric import Mode, Target
from elastune.model.profile import Profile

# Saves are short beside the run they end; three standard deviations cost little and are seldom too few.
_CAUTION_SDS = 3.0
_BOOT_PATIENCE = 5.0
_LEAST_BOOT_PATIENCE_S = 60.0
_UNMEASURED_BOOT_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    metric: str
    mode: Mode
    cluster: ClusterTerms
    profile: Profile
    limits: Limits = field(default_factory=Limits)
    may_exceed: Limit | None = None
    """The limit that may be exceeded if both cannot be kept. None: neither."""
    gangs: GangLimits = field(default_factory=GangLimits)
    retries: int = 0
    """How often a trial that crashed by its own fault is tried again."""
    target: Target | None = None
    """The run ends as soon as a model with a durable checkpoint reaches it. None: only as the policy says."""

    data: DataTerms | None = None
    """Models hop over these partitioned data. None: each trial has its own gang and data."""

    reserve_s: float = 0.0
    """What a body needs to react to a last call. In virtual time that is nothing."""

    @property
    def winding_up_s(self) -> float:
        """How long before a limit the last call has to come."""
        return self.save_allowance_s + self.reserve_s

    @property
    def save_allowance_s(self) -> float:
        """Time to set aside so that a save begun now is durable in the end."""
        save = self.profile.save
        return save.mean + _CAUTION_SDS * save.sd + self.profile.transfer_s

    def checkpoint_rule(self, every_s: float | None) -> CheckpointRule:
        """`every_s`: how often the job wants a trial to save. None: it does not say."""
        return CheckpointRule(
            mode=self.mode,
            every_s=every_s or DEFAULT_INTERVAL_S,
            save_s=self.profile.save.mean + self.profile.transfer_s,
            target=self.target,
        )

    @property
    def boot_patience_s(self) -> float:
        """A node that takes longer than this to come up is given up."""
        init = self.cluster.init
        if not init.mean:
            return _UNMEASURED_BOOT_PATIENCE_S
        return max(_LEAST_BOOT_PATIENCE_S, _BOOT_PATIENCE * (init.mean + _CAUTION_SDS * init.sd))
