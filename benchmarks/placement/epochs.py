"""The controller beside RubberBand's Algorithm 3 and packing from scratch: seconds, and gangs that move.

Processor seconds depend on the machine; the ratios, measured in the same run, much less.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from benchmarks.placement.scenes import Scale, Scene, scenes
from benchmarks.planning.timing import median_s
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.placement.controller import Shrinking, gangs_of, grant, pack, place, survey
from elastune.placement.displacement import displace
from elastune.placement.request import Change, Placement, describe


def controller(scene: Scene) -> Placement:
    if scene.nodes_kept is None:
        return place(scene.request)
    return pack(scene.request, nodes_kept=scene.nodes_kept).placement


def algorithm_3(scene: Scene) -> Placement:
    """Largest first, displacing smaller gangs; from scratch where that ends without room for all."""
    return _settle(scene, keep=True)


def from_scratch(scene: Scene) -> Placement:
    """Largest first into the best hole, as if nothing lay there."""
    return _settle(scene, keep=False)


def _settle(scene: Scene, *, keep: bool) -> Placement:
    request = scene.request
    nodes = len(request.cluster.staying)
    task = survey(request, closing=nodes - (nodes if scene.nodes_kept is None else scene.nodes_kept))
    granted = grant(task, Shrinking(min_slots=request.min_slots, shrink_to=request.shrink_to))
    task = replace(task, targets=granted.targets)
    seats = (displace(task) if keep else None) or granted.seats
    return describe(request, gangs_of(request, task, seats))


CONTESTANTS: dict[str, Callable[[Scene], Placement]] = {
    "controller": controller,
    "algorithm 3": algorithm_3,
    "from scratch": from_scratch,
}


def run(track: Track = silently) -> Report:
    return Report(tables=(measure(track),))


def measure(track: Track = silently, *, scale: Scale | None = None, seed: int = 0) -> Table:
    """Every scene by every contestant."""
    scale = scale or Scale()
    rows: list[tuple[Cell, ...]] = []
    for scene, name in track([(s, name) for s in scenes(scale, seed) for name in CONTESTANTS]):
        seconds = median_s(functools.partial(_same, scene), CONTESTANTS[name], repeats=5)
        placement = CONTESTANTS[name](scene)
        counts = [len(placement.trials(change)) for change in (Change.MOVE, Change.RESIZE, Change.START)]
        rows.append((scene.name, name, seconds * 1000, *counts, len(placement.short)))
    return Table(
        name="epochs",
        title=f"One epoch: {scale.nodes} nodes of {scale.slots_per_node} slots, {scale.gangs} gangs",
        header=("epoch", "by", "ms", "moved", "resized", "started", "short of wish"),
        rows=tuple(rows),
        note="Processor milliseconds. Moved: gangs of unchanged size that change their slots.",
    )


def _same(scene: Scene) -> Scene:
    return scene
