"""Sections of the live screen: stages, nodes, trials, next and past events; each fits the lines it is given.

Rich tables measure every cell, which would cost more than the rest of a redraw. Widths are fixed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from elastune.views.live.snapshot import NodeLine, Snapshot, StageLine, TrialLine, format_clock
from elastune.views.table import Piece
from elastune.wording import format_usd

_SPARKS = "▁▂▃▄▅▆▇█"
_SPARK = 10
# Share of the planned time: a smaller delay counts as planned.
_LATE = 0.05
_SHARE = 8
_MOST_SLOT_MARKS = 8
_NODE_STYLES = {"up": "green", "boots": "yellow", "leaves": "magenta"}
_TRIAL_STYLES = {"trains": "green", "starts": "cyan", "saves": "blue", "failed": "red", "waits": "yellow"}
_TRIAL_STYLES |= {"is evaluated": "blue", "between visits": "green"}


def line(*pieces: Piece | str) -> Text:
    return Text.assemble(*pieces, no_wrap=True, overflow="ellipsis", end="")


def cell(text: str, width: int) -> str:
    """Left-aligned; right-aligned if the width is negative."""
    cut = text if len(text) <= abs(width) else f"{text[: abs(width) - 1]}…"
    return cut.rjust(-width) if width < 0 else cut.ljust(width)


def bar(share: float, cells: int, style: str, mark: float | None = None) -> list[Piece]:
    """Filled up to a share; `mark` may lie in the filled part or beyond."""
    filled = round(min(1.0, max(0.0, share)) * cells)
    pieces = [("━" * filled, style), ("━" * (cells - filled), "bright_black")]
    if mark is None or not 0.0 <= mark <= 1.0:
        return pieces
    at = min(cells - 1, round(mark * cells))
    whole = "━" * at
    left = [(whole[:filled], style), (whole[filled:], "bright_black")]
    right = [("━" * max(0, filled - at - 1), style), ("━" * (cells - max(filled, at + 1)), "bright_black")]
    return [*left, ("┃", "bold white"), *right]


def small_bar(share: float, cells: int, style: str) -> list[Piece]:
    filled = round(min(1.0, max(0.0, share)) * cells)
    return [("█" * filled, style), ("░" * (cells - filled), "bright_black")]


def spark(values: Sequence[float], cells: int) -> str:
    """The last values, scaled to their own range."""
    shown = values[-cells:]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    top, span = len(_SPARKS) - 1, high - low
    marks = (_SPARKS[round((value - low) / span * top) if span else 0] for value in shown)
    return "".join(marks).rjust(cells)


def heading(title: str, text: str, width: int) -> Text:
    """A title, a text beside it, and a rule to the edge."""
    begin = line((title, "bold"), ("  " if text else "", ""), (text, "dim"))
    begin.append(" ")
    begin.append("─" * max(0, width - begin.cell_len), "bright_black")
    return begin


def beside(left: Sequence[Text], right: Sequence[Text], width: int, gap: int = 3) -> list[Text]:
    """Two columns; `width` is that of the left one."""
    rows: list[Text] = []
    for number in range(max(len(left), len(right))):
        row = left[number].copy() if number < len(left) else line("")
        row.truncate(width, overflow="ellipsis", pad=True)
        if number < len(right):
            row.append(" " * gap)
            row.append_text(right[number])
        rows.append(row)
    return rows


def stage_rows(snapshot: Snapshot, count: int) -> list[Text]:
    """A head and the stages around the present one."""
    word = snapshot.stage_word
    by_clock = all(stage.iterations is None for stage in snapshot.stages)
    iterations = cell("" if by_clock else "iter", -5)
    head = f"  {cell(word, 5)} {cell('trials', -6)} {iterations} {cell('nodes', -5)} {cell('planned', -8)}"
    return [line((f"{head}  actual", "dim")), *map(_stage, _window(snapshot.stages, count - 1))]


def _window(stages: Sequence[StageLine], count: int) -> Sequence[StageLine]:
    present = next((n for n, stage in enumerate(stages) if stage.is_present), 0)
    if all(stage.share >= 1.0 for stage in stages):
        present = len(stages) - 1
    begin = max(0, min(present - count // 3, len(stages) - count))
    return stages[begin : begin + count]


def _stage(stage: StageLine) -> Text:
    is_over = stage.ended_s is not None or stage.share >= 1.0
    sign, style = ("▶", "bold") if stage.is_present else ("✓", "dim") if is_over else (" ", "dim")
    iterations = "" if stage.iterations is None else f"{stage.iterations}"
    pieces: list[Piece] = [
        (f"{sign} ", "cyan" if stage.is_present else "green"),
        (f"{cell(stage.name, 5)} {cell(f'{stage.trials}', -6)} {cell(iterations, -5)} ", style),
        (f"{cell(f'{stage.nodes}', -5)} {cell(format_clock(stage.planned_end_s), -8)}  ", style),
    ]
    if stage.is_present:
        pieces += small_bar(stage.share, _SHARE, "cyan")
        pieces.append((f" {stage.share:4.0%}", "cyan"))
    elif stage.ended_s is not None:
        late = stage.ended_s - stage.planned_end_s > _LATE * max(stage.planned_end_s, 1.0)
        pieces.append((format_clock(stage.ended_s), "yellow" if late else "green"))
    return line(*pieces)


def node_rows(snapshot: Snapshot, count: int, width: int) -> list[Text]:
    """A line for each node; if there are too many, a mark for each."""
    nodes = snapshot.nodes.lines
    if not nodes:
        return [line(("  none", "dim"))]
    size = snapshot.nodes.slots_per_node
    if len(nodes) <= count:
        return [_node(node, size) for node in nodes]
    marks = [_mark(node, size) for node in nodes[: count * (width - 2)]]
    return [line("  ", *marks[begin : begin + width - 2]) for begin in range(0, len(marks), width - 2)]


def _node(node: NodeLine, size: int) -> Text:
    style = _NODE_STYLES[node.doing]
    slots: list[Piece]
    if size <= _MOST_SLOT_MARKS:
        slots = [("■" * node.busy, style), ("□" * (size - node.busy), "bright_black")]
    else:
        slots = small_bar(node.busy / size, _MOST_SLOT_MARKS, style)
    usd = "" if node.usd is None else format_usd(node.usd)
    held = f"{node.busy} of {size}" if node.partitions is None else cell(f"{node.partitions} parts", 8)
    return line(
        f"  {cell(node.name, 9)} ",
        (cell(node.doing, 7), style),
        *slots,
        (f"  {held}  {cell(format_clock(node.age_s), -6)} {cell(usd, -7)}", "dim"),
    )


def _mark(node: NodeLine, size: int) -> Piece:
    """`░` boots; otherwise the height is the share of busy slots."""
    if node.doing == "boots":
        return "░", _NODE_STYLES["boots"]
    return _SPARKS[round(node.busy / size * 7)], _NODE_STYLES[node.doing]


def trial_rows(snapshot: Snapshot, count: int) -> list[Text]:
    """The best first; where not all fit, those that train have priority."""
    lines = snapshot.trials.lines
    if not lines:
        return [line(("  none has trained yet", "dim"))]
    rows = count - 1
    shown = lines
    if len(lines) > rows:
        keep = sorted(range(len(lines)), key=lambda n: (not lines[n].is_best, lines[n].slots == 0, n))[:rows]
        shown = tuple(lines[n] for n in sorted(keep))
    named = cell(snapshot.metric, -9)
    head = f"  {cell('trial', -5)} {cell('iter', -9)} {named} {cell('change', -8)}  {cell('', _SPARK)}  slots"
    return [line((head, "dim")), *(_trial(trial, snapshot.rises) for trial in shown)]


def _trial(trial: TrialLine, rises: bool) -> Text:
    value = "" if trial.value is None else f"{trial.value:.5g}"
    change = trial.change
    change_text = "" if change is None else f"{change:+.2g}"
    better = change is not None and change != 0.0 and (change > 0.0) == rises
    at = f"{trial.iteration}" if trial.until is None else f"{trial.iteration}/{trial.until}"
    style = _TRIAL_STYLES.get(trial.doing, "dim")
    plain = "" if trial.slots else "dim"
    slots = f"{trial.slots}" if trial.slots else ""
    return line(
        ("★ " if trial.is_best else "  ", "bold yellow"),
        (f"{cell(f'{trial.number}', -5)} {cell(at, -9)} ", plain),
        (cell(value, -9), "bold" if trial.is_best else plain),
        (f" {cell(change_text, -8)}  ", "green" if better else "dim"),
        (spark(trial.values, _SPARK), style if trial.slots else "dim"),
        (f"  {cell(slots, -2)} ", plain),
        (f"{trial.doing} {trial.where}".rstrip(), style),
    )


def upcoming_rows(snapshot: Snapshot, count: int) -> list[Text]:
    rows = []
    for each in snapshot.upcoming[:count]:
        left_s = math.inf if each.at_s is None else each.at_s - snapshot.now_s
        when = "then" if each.at_s is None else "now" if left_s < 0.5 else f"in {format_clock(left_s)}"
        rows.append(line((f"  {cell(when, -11)}  ", "cyan"), each.text))
    return rows


def happened_rows(snapshot: Snapshot, count: int) -> list[Text]:
    """The last ones. The last note stays, for its reason is shown nowhere else."""
    shown = list(snapshot.happened[-count:])
    if not any(each.is_note for each in shown):
        note = next((each for each in reversed(snapshot.happened) if each.is_note), None)
        shown = shown if note is None else [note, *shown[1:]]
    return [
        line(
            (f"  {cell(format_clock(each.at_s), -11)}  ", "dim"),
            (f"{each}", "yellow" if each.is_note else ""),
        )
        for each in shown
    ]
