"""A snapshot as a screen that fits the terminal.

Sections share the lines by importance; what does not fit is counted, not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
)  # fmt: skip
from elastune.views.live.snapshot import Gauge, Snapshot, format_clock
from elastune.views.table import Piece
from elastune.wording import format_usd, plural

_LEAST_BAR = 12
_MOST_BAR = 60
_WIDE = 112
_LEFT = 50
# Below this height, sections are not separated by blank lines.
_TALL = 36
_MOST_COMING = 4
_MOST_HAPPENED = 6


@dataclass(frozen=True, slots=True)
class _Section:
    """`rows` draws at most the given number of lines below the heading; `want` is how many it could use."""

    head: Text
    want: int
    rows: Callable[[int], Sequence[Text]]
    least: int = 1


class LivePanel:
    """The renderable; its size is the console's."""

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
    if width >= _WIDE:
        return [*lines, *_wide(snapshot, width, height - len(lines))]
    found = (section(snapshot, width) for section in (_stages, _nodes, _trials, _upcoming, _happened))
    sections = [section for section in found if section is not None]
    return [*lines, *_stacked(sections, height - len(lines), gap=int(height >= _TALL))]


def _wide(snapshot: Snapshot, width: int, height: int) -> list[Text]:
    """Stages and nodes to the left, trials to the right; below them next and past events."""
    half = _LEFT + (width - _WIDE) // 3
    beside_trials = (_stages(snapshot, half), _nodes(snapshot, half))
    found = (_upcoming(snapshot, width), _happened(snapshot, width))
    below = [section for section in found if section is not None]
    least_below = sum(2 + min(section.want, 3) for section in below)
    body = max(4, height - least_below)
    left = _stacked([section for section in beside_trials if section is not None], body)
    right = _stacked([_trials(snapshot, width - 3 - half)], body)
    rows = beside(left, right, half)
    return [*rows, *_stacked(below, height - len(rows))]


def _stacked(sections: Sequence[_Section], height: int, gap: int = 1) -> list[Text]:
    """One below the other, with `gap` blank lines before each; lines are dealt out one by one, in turn."""
    given = [0] * len(sections)
    for number, section in enumerate(sections):
        if height >= gap + 1 + section.least:
            given[number] = section.least
            height -= gap + 1 + section.least
    while height > 0:
        wanting = [n for n, section in enumerate(sections) if given[n] and given[n] < section.want]
        if not wanting:
            break
        for number in wanting[:height]:
            given[number] += 1
        height -= min(height, len(wanting))
    lines: list[Text] = []
    for section, count in zip(sections, given, strict=True):
        if count:
            lines += [*[line("")] * gap, section.head, *section.rows(count)]
    return lines


def _stages(snapshot: Snapshot, width: int) -> _Section | None:
    if not snapshot.stages:
        return None
    head = heading(f"{snapshot.stage_word.capitalize()}s", "and when they end", width)
    return _Section(head, len(snapshot.stages) + 1, lambda count: stage_rows(snapshot, count), least=2)


def _nodes(snapshot: Snapshot, width: int) -> _Section:
    nodes = snapshot.nodes
    words = ("up", "booting", "requested", "leaving")
    counts = zip((nodes.up, nodes.booting, nodes.requested, nodes.leaving), words, strict=True)
    parts = [f"{count} {word}" for count, word in counts if count] or ["none"]
    slots = nodes.slots_per_node * (nodes.up + nodes.booting)
    if slots:
        parts.append(f"{nodes.busy} of {plural(slots, 'slot')} busy")
    head, want = heading("Nodes", ", ".join(parts), width), max(1, len(nodes.lines))
    return _Section(head, want, lambda count: node_rows(snapshot, count, width))


def _trials(snapshot: Snapshot, width: int) -> _Section:
    trials = snapshot.trials
    parts = [f"{trials.training} train", f"{trials.waiting} wait", f"{trials.over} over"]
    if trials.failed:
        parts[-1] += f", {trials.failed} of them failed"
    text = f"{trials.drawn:,}: {', '.join(parts)}" if trials.drawn else "none yet"
    head, want = heading("Trials", text, width), max(1, len(trials.lines)) + 1
    return _Section(head, want, lambda count: trial_rows(snapshot, count), least=2)


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
    name, run = (snapshot.name, "bold"), (f" {snapshot.run}", "dim")
    title = line(name, run, "  ", (snapshot.doing, "bold cyan"), (_where(snapshot), "cyan"))
    policy = line((f"policy {snapshot.policy}", "dim"))
    best_text = line(*best)
    if not _put_right(title, best_text, width) and not _put_right(policy, best_text, width):
        policy = best_text
    return [title, policy, line(""), *_gauge_rows(snapshot, width)]


def _gauge_rows(snapshot: Snapshot, width: int) -> Iterator[Text]:
    rows: list[tuple[str, Gauge, Callable[[float], str], tuple[str, str], str]] = [
        ("time", snapshot.time, format_clock, ("behind plan", "ahead of plan"), "done about "),
    ]
    if snapshot.money is not None:
        rows.append(("money", snapshot.money, format_usd, ("above plan", "below plan"), "in the end about "))
    texts = [_gauge_text(gauge, show, words, ends) for _, gauge, show, words, ends in rows]
    amounts = max(_length(amount) for amount, _ in texts)
    cells = min(_MOST_BAR, max(_LEAST_BAR, width - 9 - amounts - max(_length(rest) for _, rest in texts)))
    for (name, gauge, _, _, _), (amount, rest) in zip(rows, texts, strict=True):
        pad = " " * (amounts - _length(amount))
        mark = gauge.planned_end if name == "time" else gauge.planned_now
        at = None if mark is None else _share(mark, gauge)
        drawn = bar(_share(gauge.now, gauge), cells, _style(gauge), at)
        yield line((f"{name:<6}", "dim"), *drawn, "  ", (pad, ""), *amount, *rest)


def _put_right(row: Text, right: Text, width: int) -> bool:
    """At the right edge, if there is room."""
    gap = width - row.cell_len - right.cell_len
    if gap < 2:
        return False
    row.append(" " * gap)
    row.append_text(right)
    return True


def _where(snapshot: Snapshot) -> str:
    if snapshot.is_over:
        return ""
    names = [stage.name for stage in snapshot.stages if stage.is_present]
    text = f", {snapshot.stage_word}s {', '.join(names)}" if names else ""
    if len(names) == 1 and "." not in names[0]:
        text = f", {snapshot.stage_word} {names[0]} of {len(snapshot.stages)}"
    return text + "".join(f", {each}" for each in snapshot.rounds)


def _share(value: float, gauge: Gauge) -> float:
    return value / gauge.full if gauge.full else 0.0


def _style(gauge: Gauge) -> str:
    return "red" if gauge.is_in_danger else "yellow" if (gauge.ahead or 0.0) > 0.0 else "green"


def _gauge_text(
    gauge: Gauge, show: Callable[[float], str], words: tuple[str, str], ends: str
) -> tuple[list[Piece], list[Piece]]:
    """The amounts, and the comparison with the plan."""
    amount: list[Piece] = [(show(gauge.now), "bold")]
    if gauge.limit is not None:
        amount.append((f" of {show(gauge.limit)}", ""))
    elif gauge.planned_end is not None:
        amount.append((f" of {show(gauge.planned_end)} quoted", ""))
    rest: list[Piece] = []
    ahead = gauge.ahead
    if ahead is not None:
        style = _style(gauge) if ahead > 0.0 else "green"
        text = "as planned" if not ahead else f"{show(abs(ahead))} {words[0] if ahead > 0.0 else words[1]}"
        rest.append((f"  {text}", style))
    if gauge.expected_end is not None:
        style = "bold red" if gauge.is_in_danger else "dim"
        rest.append((f"{', ' if rest else '  '}{ends}{show(gauge.expected_end)}", style))
    return amount, rest


def _length(pieces: list[Piece]) -> int:
    return sum(len(text) for text, _ in pieces)
