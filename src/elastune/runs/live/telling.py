"""A scene in one line."""

from __future__ import annotations

from elastune.runs.live.scene import Scene
from elastune.units import format_duration, format_usd, plural


def tell_time(seconds: float) -> str:
    """Of a clock or an age; who waits for a run does not count milliseconds."""
    return f"{seconds:.1f} s" if 0.0 <= seconds < 1.0 else format_duration(seconds)


def tell_scene(scene: Scene) -> str:
    """Time and money against their limits, nodes, trials, and the best so far."""
    nodes, trials, best = scene.nodes, scene.trials, scene.best
    time_told = tell_time(scene.now_s)
    if scene.time.limit is not None:
        time_told += f" of {format_duration(scene.time.limit)}"
    if scene.time.ahead:
        word = "behind" if scene.time.ahead > 0 else "ahead of"
        time_told += f" ({format_duration(abs(scene.time.ahead))} {word} plan)"
    money_told = format_usd(scene.money.now)
    if scene.money.limit is not None:
        money_told += f" of {format_usd(scene.money.limit)}"
    nodes_told = plural(nodes.up, "node") + (f" (+{nodes.booting} booting)" if nodes.booting else "")
    trials_told = f"{trials.training} of {plural(trials.drawn, 'trial')} training, {trials.over} done"
    if scene.rounds:
        trials_told += f", {'; '.join(map(str, scene.rounds))}"
    best_told = "" if best is None else f", best {scene.metric} {best.metric:.6g} (trial {best.trial})"
    return f"{time_told}, {money_told}, {nodes_told}, {trials_told}{best_told}"
