"""What changed between two scenes, in words: the lines of a log."""

from __future__ import annotations

from collections.abc import Iterator

from elastune.runs.live.scene import Happening, NodesNow, Scene, StageLine
from elastune.units import format_duration, plural

BEST = "best"
"""The topic of a new best model, of which there may be many."""


def tidings(before: Scene | None, after: Scene) -> Iterator[Happening]:
    """Oldest first, as far as the order can be known. `before` None: the run was not looked at yet."""
    yield from _stages(() if before is None else before.stages, after)
    for text in _nodes(None if before is None else before.nodes, after.nodes):
        yield Happening(at_s=after.now_s, text=text, topic="nodes")
    fresh = set(after.together) - set(() if before is None else before.together)
    if fresh and not (before is not None and before.together):
        text = f"trial {min(fresh)} trains on all workers at once: too few are left to hop"
        yield Happening(at_s=after.now_s, text=text, topic="hopping")
    failed = after.trials.failed - (0 if before is None else before.trials.failed)
    if failed > 0:
        told = plural(failed, "trial")
        more = "" if failed == after.trials.failed else f", {after.trials.failed} in all"
        yield Happening(at_s=after.now_s, text=f"{told} failed{more}", topic="failed")
    best = after.best
    if best is not None and (before is None or best != before.best):
        text = f"best {after.metric} {best.metric:.6g}: trial {best.trial} after iteration {best.iteration}"
        yield Happening(at_s=after.now_s, text=text, topic=BEST)
    if after.is_over and not (before is not None and before.is_over):
        yield Happening(at_s=after.now_s, text=f"the run has ended: {after.doing}", topic="end")


def _stages(before: tuple[StageLine, ...], after: Scene) -> Iterator[Happening]:
    """A stage that begins where another one ends is told with it."""
    known = {stage.name: stage for stage in before}
    word = after.stage_word
    took: Happening | None = None
    for stage in after.stages:
        old = known.get(stage.name)
        began_s = stage.began_s if old is None or old.began_s is None else None
        ended_s = stage.ended_s if old is None or old.ended_s is None else None
        if began_s is not None and ended_s is None and not after.is_over:
            work = "" if stage.iterations is None else f" for {plural(stage.iterations, 'iteration')}"
            text = f"{word} {stage.name} begins: {plural(stage.trials, 'trial')}{work}"
            yield Happening(at_s=began_s, text=text if took is None else f"{text}; {took}", topic=word)
        elif took is not None:
            yield took
        took = None
        if ended_s is not None and stage.began_s is not None:
            real_s, planned_s = ended_s - stage.began_s, stage.planned_end_s - stage.planned_begin_s
            text = f"{word} {stage.name} took {format_duration(real_s)}, {format_duration(planned_s)} planned"
            took = Happening(at_s=ended_s, text=text, topic=word)
    if took is not None:
        yield took


def _nodes(before: NodesNow | None, after: NodesNow) -> Iterator[str]:
    was = set() if before is None else {line.name for line in before.lines}
    was_up = set() if before is None else {line.name for line in before.lines if line.doing != "boots"}
    now = {line.name for line in after.lines}
    up = {line.name for line in after.lines if line.doing != "boots"}
    if now - was - up:
        yield f"{plural(len(now - was - up), 'node')} {_verb(len(now - was - up), 'boot')}"
    if up - was_up:
        count = len(up - was_up)
        yield f"{plural(count, 'node')} {'is' if count == 1 else 'are'} up, {after.up} in all"
    if was - now:
        left = f"{after.up} left" if now else "none is left"
        yield f"{plural(len(was - now), 'node')} went, {left}"


def _verb(count: int, verb: str) -> str:
    return f"{verb}s" if count == 1 else verb
