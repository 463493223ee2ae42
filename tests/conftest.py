"""Property tests: the same examples in every run; fresh ones with `--hypothesis-profile=explore`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("explore", settings.get_profile("default"), derandomize=False, print_blob=True)
settings.load_profile("default")
