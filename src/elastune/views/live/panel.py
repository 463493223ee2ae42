"""A scene as a screen: it fills the terminal that there is, and never more.

Sections get their lines by how much they matter; what does not fit is counted, not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from elastune.views.live.lines import (
    bar,
    beside,
    happened_rows,
    heading,
    line,
    node_rows,
    stage_rows,
    trial_rows,
    upcoming_rows,
)
from elastune.views.live.snapshot import Gauge, Snapshot, StageLine, format_clock
from elastune.views.table import Piece
from elastune.wording import format_usd, plural

_LEAST_BAR = 12
_MOST_BAR = 60
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

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        # The last line stays free, or the terminal scrolls.
        for row in panel_lines(self.snapshot, options.max_width, height - 1):
            row.truncate(options.max_width, overflow="ellipsis")
            yield from row.render(console)
            yield Segment.line()


def panel_lines(snapshot: Snapshot, width: int, height: int) -> list[Text]:
    lines = _header(snapshot, width)
    pool_state = height - len(lines)
    if width >= _WIDE:
        return [*lines, *_wide(snapshot, width, pool_state)]
    return [*lines, *_stacked(_sections(snapshot, width), pool_state, gap=int(height >= _TALL))]


def _wide(snapshot: Snapshot, width: int, pool_state: int) -> list[Text]:
    """Stages and nodes to the left, trials to the right; below them what comes and what was."""
    half = _LEFT + (width - _WIDE) // 3
    stages, nodes, trials = (
        _stages(snapshot, half),
        _nodes(snapshot, half),
        _trials(snapshot, width - 3 - half),
    )
    below = [
        section for section in (_upcoming(snapshot, width), _happened(snapshot, width)) if section is not None
    ]
    least_below = sum(2 + min(section.want, 3) for section in below)
    body = max(4, pool_state - least_below)
    left = _stacked([section for section in (stages, nodes) if section is not None], body)
    right = _stacked([trials], body)
    rows = beside(left, right, half)
    return [*rows, *_stacked(below, pool_state - len(rows))]


def _sections(snapshot: Snapshot, width: int) -> list[_Section]:
    found = (
        _stages(snapshot, width),
        _nodes(snapshot, width),
        _trials(snapshot, width),
        _upcoming(snapshot, width),
        _happened(snapshot, width),
    )
    return [section for section in found if section is not None]


def _stacked(sections: Sequence[_Section], pool_state: int, gap: int = 1) -> list[Text]:
    """One below the other, with so many blank lines before each. The first lines of all come before the last
    of any."""
    given = [0] * len(sections)
    for number, section in enumerate(sections):
        if pool_state >= gap + 1 + section.least:
            given[number] = section.least
            pool_state -= gap + 1 + section.least
    while pool_state > 0:
        hungry = [n for n, section in enumerate(sections) if given[n] and given[n] < section.want]
        if not hungry:
            break
        for number in hungry[:pool_state]:
            given[number] += 1
        pool_state -= min(pool_state, len(hungry))
    lines: list[Text] = []
    for section, count in zip(sections, given, strict=True):
        if count:
            lines += [*[line("")] * gap, section.head, *section.rows(count)]
    return lines


def _stages(snapshot: Snapshot, width: int) -> _Section | None:
    if not snapshot.stages:
        return None
    title = f"{snapshot.stage_word.capitalize()}s"
    return _Section(
        heading(title, "and when they end", width),
        len(snapshot.stages) + 1,
        lambda count: stage_rows(snapshot, count),
        least=2,
    )


def _nodes(snapshot: Snapshot, width: int) -> _Section:
    nodes = snapshot.nodes
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
        heading("Nodes", ", ".join(parts), width), want, lambda count: node_rows(snapshot, count, width)
    )


def _trials(snapshot: Snapshot, width: int) -> _Section:
    trials = snapshot.trials
    parts = [f"{trials.training} train", f"{trials.waiting} wait", f"{trials.over} over"]
    if trials.failed:
        parts[-1] += f", {trials.failed} of them failed"
    told = f"{trials.drawn:,}: {', '.join(parts)}" if trials.drawn else "none yet"
    return _Section(
        heading("Trials", told, width),
        max(1, len(trials.lines)) + 1,
        lambda count: trial_rows(snapshot, count),
        least=2,
    )


def _upcoming(snapshot: Snapshot, width: int) -> _Section | None:
    if not snapshot.upcoming:
        return None
    want = min(_MOST_COMING, len(snapshot.upcoming))
    return _Section(heading("Next", "", width), want, lambda count: upcoming_rows(snapshot, count))


def _happened(snapshot: Snapshot, width: int) -> _Section | None:
    if not snapshot.happened:
        return None
    want = min(_MOST_HAPPENED, len(snapshot.happened))
    return _Section(heading("So far", "", width), want, lambda count: happened_rows(snapshot, count))


def _header(snapshot: Snapshot, width: int) -> list[Text]:
    best: list[Piece] = []
    if snapshot.best is not None:
        best = [
            ("best ", "dim"),
            (f"{snapshot.metric} {snapshot.best.metric:.5g}", "bold green"),
            (f" (trial {snapshot.best.trial}, iteration {snapshot.best.iteration})", "dim"),
        ]
    where = _where(snapshot)
    title = line(
        (snapshot.name, "bold"),
        (f" {snapshot.run}", "dim"),
        "  ",
        (snapshot.doing, "bold cyan"),
        (where, "cyan"),
    )
    policy = line((f"policy {snapshot.policy}", "dim"))
    told_best = line(*best)
    if not _put_right(title, told_best, width) and not _put_right(policy, told_best, width):
        policy = told_best
    rows = [
        ("time", snapshot.time, format_clock, ("behind plan", "ahead of plan"), "done about "),
        ("money", snapshot.money, format_usd, ("above plan", "below plan"), "in the end about "),
    ]
    told = [_told(gauge, show, words, ends) for _, gauge, show, words, ends in rows]
    amounts = max(sum(len(text) for text, _ in amount) for amount, _ in told)
    cells = min(_MOST_BAR, max(_LEAST_BAR, width - 9 - amounts - max(_length(rest) for _, rest in told)))
    lines = [title, policy, line("")]
    for (name, gauge, _, _, _), (amount, rest) in zip(rows, told, strict=True):
        pad = " " * (amounts - _length(amount))
        mark = gauge.planned_end if name == "time" else gauge.planned_now
        drawn = bar(
            _share(gauge.now, gauge), cells, _style(gauge), None if mark is None else _share(mark, gauge)
        )
        lines.append(line((f"{name:<6}", "dim"), *drawn, "  ", (pad, ""), *amount, *rest))
    return lines


def _put_right(row: Text, right: Text, width: int) -> bool:
    """At the edge, if there is room."""
    gap = width - row.cell_len - right.cell_len
    if gap < 2:
        return False
    row.append(" " * gap)
    row.append_text(right)
    return True


def _where(snapshot: Snapshot) -> str:
    present = [stage for stage in snapshot.stages if stage.is_present]
    if snapshot.is_over:
        return ""
    return _describe_stage(snapshot, present) + "".join(f", {each}" for each in snapshot.rounds)


def _describe_stage(snapshot: Snapshot, present: Sequence[StageLine]) -> str:
    if not present:
        return ""
    if len(present) == 1 and "." not in present[0].name:
        return f", {snapshot.stage_word} {present[0].name} of {len(snapshot.stages)}"
    return f", {snapshot.stage_word}s {', '.join(stage.name for stage in present)}"


def _share(value: float, gauge: Gauge) -> float:
    return value / gauge.full if gauge.full else 0.0


def _style(gauge: Gauge) -> str:
    return "red" if gauge.is_in_danger else "yellow" if (gauge.ahead or 0.0) > 0.0 else "green"


def _told(
    gauge: Gauge, show: Callable[[float], str], words: tuple[str, str], ends: str
) -> tuple[list[Piece], list[Piece]]:
    """The amounts, and how that is to be taken."""
    amount: list[Piece] = [(show(gauge.now), "bold")]
    if gauge.limit is not None:
        amount.append((f" of {show(gauge.limit)}", ""))
    elif gauge.planned_end is not None:
        amount.append((f" of {show(gauge.planned_end)} quoted", ""))
    rest: list[Piece] = []
    ahead = gauge.ahead
    if ahead is not None:
        style = _style(gauge) if ahead > 0.0 else "green"
        told = "as planned" if not ahead else f"{show(abs(ahead))} {words[0] if ahead > 0.0 else words[1]}"
        rest.append((f"  {told}", style))
    if gauge.expected_end is not None:
        style = "bold red" if gauge.is_in_danger else "dim"
        rest.append((f"{', ' if rest else '  '}{ends}{show(gauge.expected_end)}", style))
    return amount, rest


def _length(pieces: list[Piece]) -> int:
    return sum(len(text) for text, _ in pieces)
