"""What is alive, as a table; orphans stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elastune.api.nodes import LiveNode, NodeList, Swept, Unseen
from elastune.reports.tables import FirstThatFits, number_table, stacked
from elastune.units import format_duration, format_usd, plural

_COLUMNS = (
    "provider", "node", "run", "job", "owner", "kind", "state", "age", "$/h", "so far", "lease", "",
)  # fmt: skip
_WORDS = ("provider", "node", "run", "job", "owner", "kind", "state", "")
# What is left out where there is no room, step by step.
_IF_ROOM: tuple[tuple[str, ...], ...] = ((), ("job",), ("job", "owner"), ("job", "owner", "$/h", "state"))


def render_nodes(found: NodeList) -> RenderableType:
    parts: list[RenderableType] = []
    if found.nodes:
        parts.append(node_table(found.nodes, found.at))
    parts.append(Text(_summed_up(found)))
    if found.orphans:
        parts.append(orphan_list(found.orphans))
    parts += unseen_lines(found.unseen)
    return stacked(parts)


def render_swept(swept: Swept) -> RenderableType:
    """What came of ending the orphans, by a new listing."""
    left = swept.left
    told = f"{plural(len(swept.ended), 'orphan')} ended"
    if not left.nodes and not left.unseen:
        return Text(f"{told}; a new listing shows nothing of it", "green")
    parts: list[RenderableType] = [Text(f"{told}, {len(left.nodes)} still alive", "bold red")]
    if left.nodes:
        parts.append(node_table(left.nodes, left.at))
    parts += unseen_lines(left.unseen)
    parts.append(Text("look again in a minute: elastune nodes --sweep"))
    return stacked(parts)


def node_table(nodes: Sequence[LiveNode], now: float) -> RenderableType:
    return FirstThatFits(*(_rows(nodes, now, without) for without in _IF_ROOM))


def orphan_list(orphans: Sequence[LiveNode]) -> RenderableType:
    lines = Text()
    for node in orphans:
        lines.append(f"orphan {node.sighting.node}: {node.orphan}\n", "yellow")
    lines.append("`elastune nodes --sweep` ends these, and nothing else")
    return lines


def unseen_lines(unseen: Sequence[Unseen]) -> list[RenderableType]:
    """One line each, however much there is to say."""
    lines: list[RenderableType] = []
    for each in unseen:
        style = "dim" if each.is_absent else "bold yellow"
        line = Text(f"{each.provider} was not looked at: {each.reason}", style)
        line.no_wrap, line.overflow = True, "ignore"
        lines.append(line)
    return lines


def _rows(nodes: Sequence[LiveNode], now: float, without: Sequence[str]) -> Table:
    columns = [name for name in _COLUMNS if name not in without]
    table = number_table(columns, left=_WORDS, gap=2 if not without else 1)
    for node in nodes:
        cells = dict(zip(_COLUMNS, _cells(node, now), strict=True))
        table.add_row(*(cells[name] for name in columns))
    return table


def _cells(node: LiveNode, now: float) -> Iterator[Text | str]:
    seen = node.sighting
    yield seen.provider
    yield Text(seen.node, "bold")
    yield seen.run or "none"
    yield seen.job or ""
    yield seen.owner or ""
    yield seen.kind
    yield seen.state
    yield format_duration(node.age_s)
    yield "" if seen.usd_per_hour is None else format_usd(seen.usd_per_hour)
    yield "" if node.cost is None else format_usd(node.cost)
    yield _lease(seen.expires, now, kept=seen.is_kept is not None)
    yield Text("" if node.orphan is None else "orphan", "yellow")


def _lease(expires: float | None, now: float, *, kept: bool) -> str:
    if expires is None:
        return "" if kept else "none"
    return format_duration(expires - now) if expires > now else "over"


def _summed_up(found: NodeList) -> str:
    if not found.nodes:
        return "nothing is alive" + (", where it was looked" if found.unseen else "")
    told = f"{plural(len(found.nodes), 'node')} alive"
    rate = sum(node.sighting.usd_per_hour or 0.0 for node in found.nodes)
    if rate:
        told += f", {format_usd(rate)} per hour"
    if found.orphans:
        wasted = sum(node.sighting.usd_per_hour or 0.0 for node in found.orphans)
        told += f"; {plural(len(found.orphans), 'orphan')}" + (
            f", {format_usd(wasted)} per hour" if wasted else ""
        )
    return told
