"""The benchmark on a small cluster: it runs, and no contestant moves fewer gangs than the controller."""

from __future__ import annotations

from benchmarks.placement.epochs import CONTESTANTS
from benchmarks.placement.scenes import Scale, scenes
from elastune.placement.request import Change


def test_the_controller_moves_no_more_gangs_than_algorithm_3_or_packing_from_scratch() -> None:
    for scene in scenes(Scale(nodes=40, gangs=80), seed=1):
        placements = {name: place(scene) for name, place in CONTESTANTS.items()}
        moved = {name: len(placement.trials(Change.MOVE)) for name, placement in placements.items()}
        assert moved["controller"] == min(moved.values()), scene.name
