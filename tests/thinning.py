"""Which tests `make test` leaves to `make test-all`: dear ones whose every branch other tests take as well.

The list is `tests/covered_elsewhere.txt`. To make it anew, on a quiet machine, a quarter of an hour:

    pip install coverage
    ELASTUNE_THINNING=/tmp/thinning pytest -p tests.thinning -n 2 --dist loadgroup -m "not slow"
    python -m tests.thinning /tmp/thinning

Only tests of one process are on it: branches in other processes, in bash and in a browser are not seen. The
same branches are not the same assertions, so `python -m tests.mutants /tmp/thinning` breaks the source in
random places and counts how often only a test on the list would have failed. What proves a promise by many
examples stays: `ALWAYS`.
"""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import pytest

LIST = Path(__file__).parent / "covered_elsewhere.txt"
DEAR_S = 0.2
"""Processor seconds of a test below which leaving it out saves nothing."""
ALWAYS = (
    "tests/fire/",
    "tests/clouds/",
    "tests/dashboard/",
    "tests/docs/",
    "tests/hosts/",
    "tests/providers/",
    "tests/runtime/",
    "tests/planning/test_exact_is_optimal.py",
    "tests/planning/test_uncertainty.py",
    "tests/placement/test_invariants.py",
    "tests/test_",
    "contract.py",
    "test_slots_that_do_not_help_are_pointed_out",
    "test_the_example_prints_its_stages_and_says_mean_or_quantile",
)
"""Parts of names: experiments under faults, the optimum by brute force, contracts, pages, real nodes; and two
tests that were alone in finding a mutant."""
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"})
"""Events of `sys.addaudithook`."""

Branch = tuple[str, int, int]


def covered_elsewhere() -> frozenset[str]:
    """The tests on the list."""
    if MEASURED is not None:
        return frozenset()
    return frozenset(LIST.read_text(encoding="utf-8").splitlines())


def choose(branches: Mapping[str, Set[Branch]], cost_s: Mapping[str, float]) -> Iterator[str]:
    """The dearest first: tests without which every branch is still taken by a test that stays."""
    takers = Counter(branch for taken in branches.values() for branch in taken)
    for test in sorted(branches, key=lambda name: (-cost_s.get(name, 0.0), name)):
        if cost_s.get(test, 0.0) < DEAR_S or any(part in test for part in ALWAYS):
            continue
        if all(takers[branch] > 1 for branch in branches[test]):
            takers.subtract(branches[test])
            yield test


class Recorder:
    """In each process of pytest-xdist: the branches that each test takes in this process, and its cost."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._costs = folder / f"costs-{os.getpid()}.jsonl"
        self._started = 0
        sys.addaudithook(self._hear)
        coverage: Any = importlib.import_module("coverage")
        self._coverage = coverage.Coverage(
            data_file=str(folder / f"branches-{os.getpid()}.sqlite"),
            branch=True,
            source=[str(SOURCE)],
            config_file=False,
        )
        self._coverage.start()

    def _hear(self, event: str, _: object) -> None:
        self._started += event in _STARTS

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        before, started = sum(os.times()[:2]), self._started
        result = yield
        cost_s = 0.0 if self._started > started else sum(os.times()[:2]) - before
        with self._costs.open("a", encoding="utf-8") as file:
            file.write(json.dumps([item.nodeid, cost_s]) + "\n")
        return result

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    if MEASURED is not None and hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(MEASURED))


def read_branches(folder: Path) -> dict[str, set[Branch]]:
    """Of each test."""
    found: dict[str, set[Branch]] = defaultdict(set)
    for file in folder.glob("branches-*.sqlite"):
        rows = sqlite3.connect(file).execute(
            "select context, path, fromno, tono from arc join context on context.id = context_id "
            "join file on file.id = file_id where context != ''"
        )
        for test, *branch in rows:
            found[test].add(tuple(branch))
    return found


def read_costs(files: Iterable[Path]) -> dict[str, float]:
    """Processor seconds of each test; 0 for one that started a process."""
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return dict(json.loads(line) for line in lines)


SOURCE = Path(__file__).parents[1] / "src" / "elastune"
MEASURED = Path(os.environ["ELASTUNE_THINNING"]) if "ELASTUNE_THINNING" in os.environ else None

if __name__ == "__main__":
    measured = Path(sys.argv[1])
    costs = read_costs(measured.glob("costs-*.jsonl"))
    chosen = list(choose(read_branches(measured), costs))
    LIST.write_text("".join(f"{test}\n" for test in sorted(chosen)), encoding="utf-8")
    print(f"{len(chosen)} of {len(costs)} tests, {sum(costs[each] for each in chosen):.0f} of ", end="")
    print(f"{sum(costs.values()):.0f} processor seconds, are left to `make test-all`: {LIST.name}")
