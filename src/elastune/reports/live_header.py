"""The top of the screen: which run, and how it does with time and money."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from elastune.reports.live_lines import Piece, bar, line
from elastune.runs.live import Scene
from elastune.runs.live.gauge import Gauge
from elastune.runs.live.scene import StageLine
from elastune.runs.live.telling import tell_time
from elastune.units import format_usd

_LEAST_BAR = 12
_MOST_BAR = 60


def header(scene: Scene, width: int) -> list[Text]:
    best: list[Piece] = []
    if scene.best is not None:
        best = [
            ("best ", "dim"),
            (f"{scene.metric} {scene.best.metric:.5g}", "bold green"),
            (f" (trial {scene.best.trial}, iteration {scene.best.iteration})", "dim"),
        ]
    where = _where(scene)
    title = line(
        (scene.name, "bold"), (f" {scene.run}", "dim"), "  ", (scene.doing, "bold cyan"), (where, "cyan")
    )
    policy = line((f"policy {scene.policy}", "dim"))
    told_best = line(*best)
    if not _put_right(title, told_best, width) and not _put_right(policy, told_best, width):
        policy = told_best
    rows = [
        ("time", scene.time, tell_time, ("behind plan", "ahead of plan"), "done about "),
        ("money", scene.money, format_usd, ("above plan", "below plan"), "in the end about "),
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


def _where(scene: Scene) -> str:
    present = [stage for stage in scene.stages if stage.is_present]
    if scene.is_over:
        return ""
    return _stage(scene, present) + "".join(f", {each}" for each in scene.rounds)


def _stage(scene: Scene, present: Sequence[StageLine]) -> str:
    if not present:
        return ""
    if len(present) == 1 and "." not in present[0].name:
        return f", {scene.stage_word} {present[0].name} of {len(scene.stages)}"
    return f", {scene.stage_word}s {', '.join(stage.name for stage in present)}"


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
