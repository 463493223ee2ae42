"""The short version of runs on a faulty EC2. The long one: `python -m tests.clouds --runs 10000`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clouds.moto_world import moto_cloud, through_moto
from tests.clouds.runs import MakeCloud, put_on_cloud
from tests.thoroughness import most_telling

# Seeds that once broke: a node that ended unseen and was billed for a minute; one that was not remembered; a
# watchdog that needs its time; a fleet that no lease was long enough for; leases that were extended for nodes
# believed to be lost.
ONCE_BROKEN = (22, 27, 135, 138, 383, 428, 529, 569, 202_819)


def _endures(seed: int, make_cloud: MakeCloud = lambda world: world) -> None:
    try:
        put_on_cloud(seed, make_cloud)
    except Exception as error:
        raise AssertionError(f"{error}\nreproduce with: python -m tests.clouds --seed {seed}") from error


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_a_run_that_once_broke_holds(seed: int) -> None:
    _endures(seed)


@most_telling("block", *range(10), quick=2)
def test_no_run_leaks_doubles_or_overspends(block: int) -> None:
    for seed in range(100_000 + 30 * block, 100_000 + 30 * (block + 1)):
        _endures(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_of_many_runs_none_leaks_doubles_or_overspends(block: int) -> None:
    for seed in range(200_000 + 250 * block, 200_000 + 250 * (block + 1)):
        _endures(seed)


@pytest.fixture(scope="module")
def _moto() -> Iterator[None]:
    with moto_cloud():
        yield


@pytest.mark.usefixtures("_moto")
@most_telling("seed", *range(6), quick=2)
def test_behind_moto_no_run_leaks_doubles_or_overspends(seed: int) -> None:
    _endures(seed, through_moto)
