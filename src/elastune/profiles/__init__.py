"""What was measured: latencies as distributions and how training scales with slots."""

from elastune.profiles.distributions import (
    Constant,
    Distribution,
    Empirical,
    LogNormal,
    Normal,
    is_constant,
    scaled,
)
from elastune.profiles.measurements import fit_profile
from elastune.profiles.profile import Profile
from elastune.profiles.speedup import Speedup

__all__ = [
    "Constant",
    "Distribution",
    "Empirical",
    "LogNormal",
    "Normal",
    "Profile",
    "Speedup",
    "fit_profile",
    "is_constant",
    "scaled",
]
