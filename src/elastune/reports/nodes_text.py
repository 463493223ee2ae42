"""What is alive, as a table; orphans stand out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from elastune.api.nodes import LiveNode, NodeList, Swept, Unseen
from elastune.providers.estate import Sighting
from elastune.reports.table import Column, Table, Tone, make_table
from elastune.reports.terminal import stacked, terminal_table
from elastune.units import format_duration, format_usd, plural


def render_nodes(found: NodeList) -> RenderableType:
    parts: list[RenderableType] = []
    if found.nodes:
        parts.append(terminal_table(node_table(found.nodes, found.at)))
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
        parts.append(terminal_table(node_table(left.nodes, left.at)))
    parts += unseen_lines(left.unseen)
    parts.append(Text("look again in a minute: elastune nodes --sweep"))
    return stacked(parts)


def node_table(nodes: Sequence[LiveNode], now: float) -> Table:
    columns: list[Column[LiveNode]] = [
        Column("provider", lambda node: node.sighting.provider, is_text=True),
        Column("node", lambda node: node.sighting.node, is_text=True, tone=Tone.STRONG),
        Column("run", lambda node: node.sighting.run or "none", is_text=True),
        Column("job", lambda node: node.sighting.job, is_text=True, leaves=1),
        Column("owner", lambda node: node.sighting.owner, is_text=True, leaves=2),
        Column("kind", lambda node: node.sighting.kind, is_text=True),
        Column("state", lambda node: node.sighting.state, is_text=True, leaves=3),
        Column("age", lambda node: node.age_s, format_duration),
        Column("$/h", lambda node: node.sighting.usd_per_hour, format_usd, leaves=3),
        Column("so far", lambda node: node.cost, format_usd),
        Column("lease", lambda node: _lease(node.sighting, now)),
        Column("", lambda node: "" if node.orphan is None else "orphan", is_text=True, tone=Tone.WARN),
    ]
    return make_table(columns, nodes)


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


def _lease(seen: Sighting, now: float) -> str:
    if seen.expires is None:
        return "" if seen.is_kept is not None else "none"
    return format_duration(seen.expires - now) if seen.expires > now else "over"


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
