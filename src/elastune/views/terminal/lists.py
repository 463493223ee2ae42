"""Lists for the terminal: runs, running nodes, and the measurements of a profile.

Runs that were started together, over seeds or policies, share a line. Orphaned nodes are highlighted.
"""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from elastune.journal.run_folders import BrokenFolder
from elastune.journal.run_index import indexed_paths
from elastune.model.speeds import ConfigSpeed
from elastune.providers.protocol import LiveInstance
from elastune.runs.orphans import LiveNode, NodeList, Swept, Unseen
from elastune.runs.profiling import Profiled
from elastune.runs.run_list import RunLine, RunList, RunState
from elastune.views.table import Cell, Column, Table, Tone, fact_table, make_table, stacked, terminal_table
from elastune.wording import format_duration, format_usd, plural, several

_TONES = {
    RunState.COMPLETE: Tone.GOOD,
    RunState.TARGET: Tone.GOOD,
    RunState.RUNNING: Tone.ACTIVE,
    RunState.FAILED: Tone.BAD,
    RunState.INTERRUPTED: Tone.WARN,
    RunState.SUSPENDED: Tone.WARN,
}
_HINT = "Runs started together share a line with the means of time, cost and best; --each shows each."
# Shorter ones are not worth a line, nor a key in the job.
_LEAST_QUEUE_S = 0.5
_LEAST_SYNC_S = 0.001
_MOST_SHOWN = 6
# The probability from which on a hyperparameter is said to change the speed.
_MATTERS = 0.8
Group = Sequence[RunLine]
"""Runs that share a line, the newest first."""


def render_runs(listing: RunList, *, apart: bool, now_utc: datetime) -> RenderableType:
    """`apart`: a line for each run, also for runs started together."""
    parts: list[RenderableType] = []
    if listing.runs:
        groups = list(_groups(listing.runs, apart=apart))
        parts.append(terminal_table(run_table(groups, now_utc, with_folder=listing.root is None)))
        if any(len(group) > 1 for group in groups):
            parts.append(Text(_HINT, "dim"))
    if listing.broken:
        parts.append(terminal_table(_broken_table(listing.broken)))
    if not parts and listing.root is not None:
        parts.append(Text(f"no runs in {listing.root} yet; `elastune simulate job.yaml` makes one"))
        if indexed_paths():
            parts.append(Text("`elastune runs --all` lists your runs in other folders", "dim"))
    elif not parts:
        parts.append(Text("no runs in the index; `elastune simulate job.yaml` makes one"))
    if listing.hidden:
        parts.append(Text(f"{plural(listing.hidden, 'profile run')} not shown; --profiles shows them", "dim"))
    return stacked(parts)


def run_table(groups: Sequence[Group], now_utc: datetime, *, with_folder: bool = False) -> Table:
    """Faults and costs are columns only if there were any, folders if there are several."""
    columns: list[Column[Group]] = [
        Column("run", _ids, is_text=True, tone=Tone.STRONG),
        Column("name", _name, is_text=True, leaves=5, max_width=30, narrow_width=10),
        Column("when", lambda runs: _age(runs, now_utc), is_text=True, tone=Tone.MUTED, leaves=2),
        Column("runtime", lambda runs: runs[-1].record.body.value, is_text=True, leaves=1),
        Column("policy", _policies, is_text=True),
        Column("seed", _seeds, leaves=3),
        Column("faults", _faults, is_text=True, leaves=4, max_width=30, narrow_width=10),
        Column("state", _state, is_text=True),
        Column("events", lambda runs: sum(run.events for run in runs), leaves=1),
        Column("time", lambda runs: statistics.fmean(run.seconds for run in runs), format_duration),
        Column("cost", lambda runs: _mean([run.cost for run in runs]), format_usd),
        Column("best", lambda runs: _mean([run.best for run in runs]), lambda best: f"{best:.4g}"),
    ]
    has_faults = any(_faults([run]) for runs in groups for run in runs)
    if with_folder:
        columns.append(Column("in", lambda runs: _short_path(runs[-1].folder.path.parent), is_text=True))
    has_costs = any(run.cost for runs in groups for run in runs)
    unused = {title for title, used in (("faults", has_faults), ("cost", has_costs)) if not used}
    return make_table([column for column in columns if column.title not in unused], groups)


def _groups(runs: Sequence[RunLine], *, apart: bool) -> Iterable[list[RunLine]]:
    if apart:
        return ([line] for line in runs)
    by_folder: dict[Path, list[RunLine]] = {}
    for line in runs:
        by_folder.setdefault(line.folder.path, []).append(line)
    return by_folder.values()


def _short_path(path: Path) -> str:
    """`~/project/elastune-runs`."""
    home = os.path.expanduser("~")  # noqa: PTH111  unlike Path.home(), it never raises
    text = str(path)
    return f"~{text.removeprefix(home)}" if text.startswith(f"{home}/") else text


def _name(runs: Group) -> str:
    return runs[-1].record.name


def _ids(runs: Group) -> str:
    first, last = runs[-1].record.run, runs[0].record.run
    return first if first == last else f"{first}-{last.rpartition('.')[2]}"


def _age(runs: Group, now_utc: datetime) -> str:
    return format_age((now_utc - runs[-1].record.created_utc).total_seconds())


def _policies(runs: Group) -> str:
    policies = {run.record.policy for run in runs}
    return runs[-1].record.policy if len(policies) == 1 else f"{len(policies)} policies"


def _seeds(runs: Group) -> str:
    seeds = sorted({run.record.seed for run in runs})
    return f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"


def _faults(runs: Group) -> str:
    faults = runs[-1].faults
    return "" if faults in (None, "none") else str(faults)


def _state(runs: Group) -> Cell:
    state, count = Counter(run.state for run in runs).most_common(1)[0]
    text = state.value if count == len(runs) else f"{count}/{len(runs)} {state.value}"
    return Cell(text, _TONES.get(state, Tone.PLAIN))


def _mean(values: Sequence[float | None]) -> float | None:
    """None if a value is missing: the mean of the others would mislead."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def format_age(seconds: float) -> str:
    """`3m ago`, in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return "now"


def _broken_table(broken: Sequence[BrokenFolder]) -> Table:
    """One line per folder, even if several of its runs cannot be read."""
    reasons: dict[Path, dict[str, None]] = {}
    for each in broken:
        path = each.folder.path
        reason = each.reason.replace(f"{path.absolute()}/", "").replace(f"{path}/", "")
        reasons.setdefault(path, {})[reason] = None
    columns: list[Column[Path]] = [
        Column("folder", lambda path: path.name, is_text=True, wraps=True),
        Column("why", lambda path: several(reasons[path], most=3), is_text=True, wraps=True),
    ]
    return make_table(columns, reasons, title=f"{plural(len(reasons), 'folder')} cannot be read")


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
    """What a new listing shows after the sweep."""
    left = swept.left
    ended = f"{plural(len(swept.ended), 'orphan')} ended"
    if not left.nodes and not left.unseen:
        return Text(f"{ended}; a new listing shows none of them", "green")
    parts: list[RenderableType] = [Text(f"{ended}, {len(left.nodes)} still running", "bold red")]
    if left.nodes:
        parts.append(terminal_table(node_table(left.nodes, left.at)))
    parts += unseen_lines(left.unseen)
    parts.append(Text("look again in a minute: elastune nodes --sweep"))
    return stacked(parts)


def node_table(nodes: Sequence[LiveNode], now: float) -> Table:
    columns: list[Column[LiveNode]] = [
        Column("provider", lambda node: node.instance.provider, is_text=True),
        Column("node", lambda node: node.instance.node, is_text=True, tone=Tone.STRONG),
        Column("run", lambda node: node.instance.run or "none", is_text=True),
        Column("job", lambda node: node.instance.job, is_text=True, leaves=1),
        Column("owner", lambda node: node.instance.owner, is_text=True, leaves=2),
        Column("kind", lambda node: node.instance.kind, is_text=True),
        Column("state", lambda node: node.instance.state, is_text=True, leaves=3),
        Column("age", lambda node: node.age_s, format_duration),
        Column("$/h", lambda node: node.instance.usd_per_hour, format_usd, leaves=3),
        Column("so far", lambda node: node.cost, format_usd),
        Column("lease", lambda node: _lease(node.instance, now)),
        Column("", lambda node: "" if node.orphan is None else "orphan", is_text=True, tone=Tone.WARN),
    ]
    return make_table(columns, nodes)


def orphan_list(orphans: Sequence[LiveNode]) -> RenderableType:
    lines = [(f"orphan {node.instance.node}: {node.orphan}\n", "yellow") for node in orphans]
    return Text.assemble(*lines, "`elastune nodes --sweep` ends these, and nothing else")


def unseen_lines(unseen: Sequence[Unseen]) -> list[RenderableType]:
    """One line each, not wrapped."""
    lines: list[RenderableType] = []
    for each in unseen:
        style = "dim" if each.is_absent else "bold yellow"
        line = Text(f"{each.provider} could not be listed: {each.reason}", style)
        line.no_wrap, line.overflow = True, "ignore"
        lines.append(line)
    return lines


def _lease(seen: LiveInstance, now: float) -> str:
    if seen.expires is None:
        return "" if seen.is_kept is not None else "none"
    return format_duration(seen.expires - now) if seen.expires > now else "over"


def _summed_up(found: NodeList) -> str:
    if not found.nodes:
        return "no nodes running" + (" at the providers that were listed" if found.unseen else "")
    text = f"{plural(len(found.nodes), 'node')} running{_rate(found.nodes)}"
    if found.orphans:
        text += f"; {plural(len(found.orphans), 'orphan')}{_rate(found.orphans)}"
    return text


def _rate(nodes: Sequence[LiveNode]) -> str:
    rate = sum(node.instance.usd_per_hour or 0.0 for node in nodes)
    return f", {format_usd(rate)} per hour" if rate else ""


def render_profiled(taken: Profiled, job: Path) -> RenderableType:
    return stacked(_parts(taken, job))


def _parts(taken: Profiled, job: Path) -> Iterator[RenderableType]:
    measured = taken.measurements
    yield Text.assemble((job.stem, "bold"), f", measured in {format_duration(taken.took.jct_seconds)}")
    columns: list[Column[tuple[int, list[float]]]] = [
        Column("slots", lambda each: each[0]),
        Column("iteration", lambda each: statistics.fmean(each[1]), format_duration),
        Column("sd", lambda each: _sd(each[1])),
        Column("speed-up", lambda each: taken.profile.speedup.at(each[0]), lambda ratio: f"{ratio:.2f}"),
        Column("efficiency", lambda each: f"{taken.profile.speedup.at(each[0]) / each[0]:.0%}"),
        Column("measured", lambda each: plural(len(each[1]), "iteration")),
    ]
    yield terminal_table(make_table(columns, measured.typical().items()))
    if len(taken.profile.speeds) > 1:
        yield terminal_table(_configurations(taken))
    yield fact_table(list(_facts(taken)))
    hint = Text(f"written to {taken.path}; to use it, set ")
    hint.append(f"profile: {taken.path.name}", "bold")
    seconds = [each for times in measured.boot.values() for each in times]
    if seconds:
        hint.append(f" and, in cluster, init: {statistics.fmean(seconds):.1f}s")
        if (queue_s := statistics.fmean(measured.queue)) >= _LEAST_QUEUE_S:
            hint.append(f" and queue: {queue_s:.1f}s")
    yield hint


def _configurations(taken: Profiled) -> Table:
    """The fastest first, with the hyperparameters that were varied, the most influential first."""
    smallest = min(taken.measurements.iterations)
    mean_s = taken.profile.iteration.mean / taken.profile.speedup.at(smallest)

    def value_of(name: str) -> Callable[[ConfigSpeed], str]:
        return lambda each: _value(dict(each.config), name)

    names = [each.name for each in taken.influences()][:_MOST_SHOWN]
    columns: list[Column[ConfigSpeed]] = [
        *(Column(name, value_of(name)) for name in names),
        Column("iteration", lambda each: each.factor * mean_s, format_duration),
        Column("of the average", lambda each: f"{each.factor:.2f}"),
        Column("measured", lambda each: plural(round(each.weight), "iteration")),
    ]
    return make_table(columns, sorted(taken.profile.speeds, key=lambda each: each.factor))


def _value(config: Mapping[str, object], name: str) -> str:
    value = config.get(name, "")
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _facts(taken: Profiled) -> Iterator[tuple[str, str]]:
    measured = taken.measurements
    yield "configurations", f"differ in speed by {measured.spread:.1%}"
    matters = [each for each in taken.influences() if each.probability >= _MATTERS]
    if matters:
        told = (f"{each.name} (up to {each.ratio:.1f} times)" for each in matters)
        yield "speed depends on", several(told, _MOST_SHOWN)
    elif taken.influences():
        yield "speed depends on", "none of the hyperparameters, as far as these show"
    yield "start-up", _mean_and_range(measured.startup)
    yield "save", _mean_and_range(measured.save)
    if max(measured.sync, default=0.0) >= _LEAST_SYNC_S:
        yield "barrier", _mean_and_range(measured.sync)
    for count, times in sorted(measured.boot.items()):
        yield f"boot of {plural(count, 'node')}", _mean_and_range(times)
    if max(measured.queue, default=0.0) >= _LEAST_QUEUE_S:
        yield "queue", _mean_and_range(measured.queue)
    for text in measured.unmeasured:
        yield "not measured", text
    if taken.took.cost:
        yield "it cost", format_usd(taken.took.cost)


def _mean_and_range(values: Sequence[float]) -> str:
    if not values:
        return "not measured"
    text = format_duration(statistics.fmean(values))
    if len(values) > 1:
        text += f", {format_duration(min(values))} to {format_duration(max(values))}"
    return text


def _sd(values: Sequence[float]) -> str:
    return format_duration(statistics.stdev(values)) if len(values) > 1 else ""
