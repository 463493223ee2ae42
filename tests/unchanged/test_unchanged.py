from __future__ import annotations

from tests.unchanged.experiments import all_experiments
from tests.unchanged.records import differences, record

NAMES = (
    "simulate/pbt/gang/harsh/004",
    "simulate/grid/gang/mild/006",
    "plan/sha/gang/02",
    "fire/gang/600003",
    "fire/hopper/10000004",
)


def test_the_same_tree_gives_the_same_records() -> None:
    chosen = {each.name: each for each in all_experiments() if each.name in NAMES}
    assert len(chosen) == len(NAMES)
    for experiment in chosen.values():
        found = record(experiment)
        assert "error" not in found
        assert list(differences(found, record(experiment), texts=True)) == []


def test_differences_name_the_keys() -> None:
    before = {"a": {"b": [1, 2]}, "yields": "budget", "why": "two words"}
    now = {"a": {"b": [1, 3]}, "may_exceed": "budget", "why": "three other words"}
    assert list(differences(before, now)) == ["a.b[1]: 2 -> 3"]
