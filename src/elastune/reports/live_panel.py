"""A scene as a screen: it fills the terminal that there is, and never more.

Sections get their lines by how much they matter; what does not fit is counted, not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from elastune.reports.live_header import header
from elastune.reports.live_lines import beside, heading, line
from elastune.reports.live_sections import coming_rows, happened_rows, node_rows, stage_rows, trial_rows
from elastune.runs.live import Scene
from elastune.units import plural

_WIDE = 112
_LEFT = 50
# Below this, blank lines are a luxury.
_TALL = 36
_MOST_COMING = 4
_MOST_HAPPENED = 6


@dataclass(frozen=True, slots=True)
class _Section:
    """`rows` draws at most so many lines below the heading; `want` is how many it could use."""

    head: Text
    want: int
    rows: Callable[[int], Sequence[Text]]
    least: int = 1


class LivePanel:
    """The renderable; how large it is, the console says."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        # The last line stays free, or the terminal scrolls.
        for row in panel_lines(self.scene, options.max_width, height - 1):
            row.truncate(options.max_width, overflow="ellipsis")
            yield from row.render(console)
            yield Segment.line()


def panel_lines(scene: Scene, width: int, height: int) -> list[Text]:
    lines = header(scene, width)
    room = height - len(lines)
    if width >= _WIDE:
        return [*lines, *_wide(scene, width, room)]
    return [*lines, *_stacked(_sections(scene, width), room, gap=int(height >= _TALL))]


def _wide(scene: Scene, width: int, room: int) -> list[Text]:
    """Stages and nodes to the left, trials to the right; below them what comes and what was."""
    half = _LEFT + (width - _WIDE) // 3
    stages, nodes, trials = _stages(scene, half), _nodes(scene, half), _trials(scene, width - 3 - half)
    below = [section for section in (_coming(scene, width), _happened(scene, width)) if section is not None]
    least_below = sum(2 + min(section.want, 3) for section in below)
    body = max(4, room - least_below)
    left = _stacked([section for section in (stages, nodes) if section is not None], body)
    right = _stacked([trials], body)
    rows = beside(left, right, half)
    return [*rows, *_stacked(below, room - len(rows))]


def _sections(scene: Scene, width: int) -> list[_Section]:
    found = (
        _stages(scene, width),
        _nodes(scene, width),
        _trials(scene, width),
        _coming(scene, width),
        _happened(scene, width),
    )
    return [section for section in found if section is not None]


def _stacked(sections: Sequence[_Section], room: int, gap: int = 1) -> list[Text]:
    """One below the other, with so many blank lines before each. The first lines of all come before the last
    of any."""
    given = [0] * len(sections)
    for number, section in enumerate(sections):
        if room >= gap + 1 + section.least:
            given[number] = section.least
            room -= gap + 1 + section.least
    while room > 0:
        hungry = [n for n, section in enumerate(sections) if given[n] and given[n] < section.want]
        if not hungry:
            break
        for number in hungry[:room]:
            given[number] += 1
        room -= min(room, len(hungry))
    lines: list[Text] = []
    for section, count in zip(sections, given, strict=True):
        if count:
            lines += [*[line("")] * gap, section.head, *section.rows(count)]
    return lines


def _stages(scene: Scene, width: int) -> _Section | None:
    if not scene.stages:
        return None
    title = f"{scene.stage_word.capitalize()}s"
    return _Section(
        heading(title, "and when they end", width),
        len(scene.stages) + 1,
        lambda count: stage_rows(scene, count),
        least=2,
    )


def _nodes(scene: Scene, width: int) -> _Section:
    nodes = scene.nodes
    counts = (
        (nodes.up, "up"),
        (nodes.booting, "booting"),
        (nodes.requested, "asked for"),
        (nodes.leaving, "leaving"),
    )
    parts = [f"{count} {word}" for count, word in counts if count] or ["none"]
    slots = nodes.slots_per_node * (nodes.up + nodes.booting)
    if slots:
        parts.append(f"{nodes.busy} of {plural(slots, 'slot')} busy")
    want = max(1, len(nodes.lines))
    return _Section(
        heading("Nodes", ", ".join(parts), width), want, lambda count: node_rows(scene, count, width)
    )


def _trials(scene: Scene, width: int) -> _Section:
    trials = scene.trials
    parts = [f"{trials.training} train", f"{trials.waiting} wait", f"{trials.over} over"]
    if trials.failed:
        parts[-1] += f", {trials.failed} of them failed"
    told = f"{trials.drawn:,}: {', '.join(parts)}" if trials.drawn else "none yet"
    return _Section(
        heading("Trials", told, width),
        max(1, len(trials.lines)) + 1,
        lambda count: trial_rows(scene, count),
        least=2,
    )


def _coming(scene: Scene, width: int) -> _Section | None:
    if not scene.coming:
        return None
    want = min(_MOST_COMING, len(scene.coming))
    return _Section(heading("Next", "", width), want, lambda count: coming_rows(scene, count))


def _happened(scene: Scene, width: int) -> _Section | None:
    if not scene.happened:
        return None
    want = min(_MOST_HAPPENED, len(scene.happened))
    return _Section(heading("So far", "", width), want, lambda count: happened_rows(scene, count))
