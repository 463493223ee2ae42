"""Which tests are left to `make test-all`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.thinning import ALWAYS, choose, covered_elsewhere

ROOT = Path(__file__).parents[1]
SOME, OTHER, THIRD = ("a.py", 1, 2), ("a.py", 2, 3), ("b.py", 1, 2)


def test_the_dearest_test_goes_first_and_every_branch_keeps_a_test() -> None:
    branches = {"dear": {SOME, OTHER}, "cheap": {SOME, OTHER}, "last": {SOME}}
    assert list(choose(branches, {"dear": 9.0, "cheap": 3.0, "last": 2.0})) == ["dear", "last"]


def test_what_takes_a_branch_alone_costs_little_or_proves_a_promise_stays() -> None:
    branches = {"alone": {SOME, THIRD}, "quick": {SOME}, f"{ALWAYS[0]}test.py::any": {SOME}, "other": {SOME}}
    costs = {"alone": 9.0, "quick": 0.1, f"{ALWAYS[0]}test.py::any": 9.0}
    assert list(choose(branches, costs)) == []


@pytest.mark.skipif(not covered_elsewhere(), reason="the list is being made anew")
def test_every_test_on_the_list_is_there() -> None:
    """One that was renamed would run again without anybody's decision."""
    missing = []
    for test in covered_elsewhere():
        file, *_, name = test.split("[")[0].split("::")
        path = ROOT / file
        if not path.exists() or (name != "runTest" and f"def {name}(" not in _texts(path)):
            missing.append(test)
    assert missing == []


def _texts(path: Path) -> str:
    """Contracts are inherited from modules beside the test."""
    return "".join(each.read_text(encoding="utf-8") for each in path.parent.glob("*.py"))
