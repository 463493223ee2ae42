"""What is agreed before a run. Only a change of its limits replaces it while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from elastune.hopping.partitions import DataTerms
from elastune.model.checkpoint_rule import DEFAULT_INTERVAL_S, CheckpointRule
from elastune.model.cluster import ClusterTerms
from elastune.model.continuing import Continuing
from elastune.model.limits import GangLimits, Limit, Limits
from elastune.model.metric import Mode, Target
from elastune.model.profile import Profile

# Saves are short compared with a run; three standard deviations cost little and are rarely exceeded.
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
    """The limit that may be exceeded when both cannot be kept. None: neither."""
    gangs: GangLimits = field(default_factory=GangLimits)
    retries: int = 0
    """How often a trial whose own code crashed is tried again."""
    fail_fast: bool = False
    """The first trial that fails ends the run."""
    target: Target | None = None
    """The run ends as soon as a model with a durable checkpoint reaches it. None: when the policy ends it."""
    data: DataTerms | None = None
    """Models hop over these partitioned data. None: each trial has its own gang and data."""
    continuing: Continuing = Continuing.CHECKPOINT
    """How a trial goes on in another gang."""
    reserve_s: float = 0.0
    """What a runtime needs to react to a last call; none in virtual time."""

    @property
    def winding_up_s(self) -> float:
        """How long before a limit the last call comes."""
        return self.save_allowance_s + self.reserve_s

    @property
    def save_allowance_s(self) -> float:
        """Time to set aside for a save to become durable."""
        save = self.profile.save
        return save.mean + _CAUTION_SDS * save.sd + self.profile.transfer_s

    def checkpoint_rule(self, every_s: float | None) -> CheckpointRule:
        """`every_s`: the job's interval between saves. None: not given."""
        return CheckpointRule(
            mode=self.mode,
            every_s=every_s or DEFAULT_INTERVAL_S,
            save_s=self.profile.save.mean + self.profile.transfer_s,
            target=self.target,
        )

    @property
    def boot_patience_s(self) -> float:
        """A node that takes longer to boot is released."""
        init = self.cluster.init
        if not init.mean:
            return _UNMEASURED_BOOT_PATIENCE_S
        return max(_LEAST_BOOT_PATIENCE_S, _BOOT_PATIENCE * (init.mean + _CAUTION_SDS * init.sd))
