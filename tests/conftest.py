"""Property tests: the same examples in every run; fresh ones with `--hypothesis-profile=explore`."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("explore", settings.get_profile("default"), derandomize=False, print_blob=True)
settings.load_profile("default")

# A shell that starts the tests in the background has them ignore Ctrl-C; what they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
