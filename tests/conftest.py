"""For all tests: examples of property tests, the cloud, and who runs where.

Property tests have the same examples in every run; fresh ones with `--hypothesis-profile=explore`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.clouds.land import Land

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


OF_ALL = ("land", "crew", "server")
"""What all tests share that use it, and takes seconds to start."""
OF_MODULES = ("address", "bucket", "cluster", "fleet", "_moto")
"""What the tests of a module share."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share such things run in one process: `--dist loadgroup`."""
    for item in items:
        used = getattr(item, "fixturenames", ())
        group = next((name for name in OF_ALL if name in used), None)
        if group is None and any(name in used for name in OF_MODULES):
            group = str(item.path)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def land() -> Iterator[Land]:
    """One cloud for all tests of a process: its Ray head takes seconds to start."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    pytest.importorskip("ray")
    pytest.importorskip("moto.server")
    from tests.clouds.land import whole_land  # noqa: PLC0415 - heavy

    with whole_land() as made:
        yield made
