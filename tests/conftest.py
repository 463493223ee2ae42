"""For all tests: examples of property tests, the cloud, the index of runs, and who runs where.

Property tests have the same examples in every run; fresh ones with `--hypothesis-profile=explore`.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.distribution import Distributor, spread, tell_groups
from tests.thinning import covered_elsewhere

if TYPE_CHECKING:
    from tests.clouds.land import Land

settings.register_profile(
    "default",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile(
    "explore", settings.get_profile("default"), max_examples=100, derandomize=False, print_blob=True
)
settings.load_profile("default")

# Hundreds of processes would compile the package anew, and each one that collects the tests, them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the tests in the background has them ignore Ctrl-C; what they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Instead of the home of the person who runs the tests.
HOME = tempfile.mkdtemp(prefix="elastune-home-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ["ELASTUNE_HOME"] = HOME
_homes = itertools.count()


@pytest.fixture(autouse=True)
def elastune_home(monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test has an index of runs of its own."""
    home = f"{HOME}/{next(_homes)}"
    monkeypatch.setenv("ELASTUNE_HOME", home)
    return home


# While tests are collected hardly any garbage arises, and the heap that is searched for it grows and grows.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000)  # instead of 700: what a test makes is mostly gone when it ends
    gc.enable()


OF_ALL = ("land", "crew", "server", "slurm_cluster")
"""What all tests share that use it, and takes seconds to start."""
WAITING = (
    "tests/clouds",
    "tests/hosts",
    "tests/runtime/real",
    "tests/exports/test_live.py",
    "tests/exports/test_wandb.py",
    "tests/cli/test_live_run.py",
    "tests/providers/test_local_provider.py",
    "tests/providers/test_draining.py",
    "tests/providers/ec2/test_boot.py",
    "tests/providers/slurm",
    "tests/providers/ssh",
    "tests/test_documents.py",
    "tests/test_examples.py",
)
"""Tests that start real processes and wait for them."""


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") == "loadgroup" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Distributor(config))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share something which takes long to make run in one process: `--dist loadgroup`. Tests whose
    branches others take as well are slow."""
    elsewhere = covered_elsewhere()
    for item in items:
        if item.nodeid in elsewhere:
            item.add_marker(pytest.mark.slow)
        group = _group_of(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    if getattr(config.option, "loadgroup", False):
        items[:] = spread(items, lambda item: item.nodeid.startswith(WAITING))
    tell_groups(config, items)


def _group_of(item: pytest.Item) -> str | None:
    """A name of `OF_ALL`, or the module if the tests of a module share a fixture."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("xdist_group") is not None:
        return None
    shared = next((name for name in OF_ALL if name in item.fixturenames), None)
    used = (found for each in item._fixtureinfo.name2fixturedefs.values() for found in each)
    if shared is None and any(found.scope == "module" for found in used):
        return str(item.path)
    return shared


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
