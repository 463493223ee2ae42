"""Where one run stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from elastune.reports.farewell_text import tell_farewell
from elastune.reports.hopping_text import hopping_parts
from elastune.reports.kinds_text import tell_prices
from elastune.reports.simulation_text import (
    policy_reason,
    render_overview,
    tell_ending,
    tell_faults,
    where_several,
)
from elastune.reports.standing_text import facts, failure_table, promise_table, remark_table, stage_table
from elastune.reports.tables import fact_table, number_table, stacked, titled
from elastune.runs.gathering import CampaignStatus, Unfinished
from elastune.runs.listing import RunState
from elastune.runs.reopening import Audit, RunStatus
from elastune.runs.replay import Deviation
from elastune.runs.shelf import repeating
from elastune.units import format_duration, plural

# Whose nodes die with their driver, or never lived.
_AT_HOME = ("local", "simulated")
_LAST_REMARKS = 8
_LINE_AT_MOST = 300
_MOST_UNFINISHED = 8


def render_status(status: RunStatus) -> RenderableType:
    if status.audit is not None and status.audit.deviation is not None:
        return stacked([_headline(status), _deviation(status.audit.deviation, status.audit.agreed)])
    return stacked(_parts(status))


def render_campaign_status(status: CampaignStatus) -> RenderableType:
    """As `simulate` showed it, and what is not complete."""
    overview = status.overview
    parts: list[RenderableType] = []
    if overview.runs:
        parts += render_overview(overview)
    else:
        parts.append(Text(f"{overview.name}, simulated: none of {plural(overview.asked, 'run')} is complete"))
    if status.unfinished:
        parts.append(_unfinished_table(status.unfinished))
    rows = where_several(overview) if overview.runs else fact_table()
    if status.intent is not None and overview.folder is not None:
        rows.add_row("repeat", repeating(overview.folder, status.intent))
    parts.append(rows)
    return stacked(parts)


def _unfinished_table(runs: Sequence[Unfinished]) -> RenderableType:
    table = number_table(("run", "policy", "seed", "state", "time"), left=("run", "policy", "state"))
    for each in runs[:_MOST_UNFINISHED]:
        table.add_row(each.run, each.policy, f"{each.seed}", each.state.value, format_duration(each.seconds))
    more = len(runs) - _MOST_UNFINISHED
    return titled("Not complete" + (f" ({more:,} more)" if more > 0 else ""), table)


def _parts(status: RunStatus) -> Iterator[RenderableType]:
    standing = status.standing
    yield _headline(status)
    yield promise_table(standing, "so far" if standing.ending is None else "in the end")
    if standing.conceded:
        yield Text(f"gave way: the {' and the '.join(standing.conceded)}", "yellow")
    yield facts(standing)
    if standing.ending is None:
        now = standing.nodes
        parts = [f"{now.ready} up"]
        parts += [
            f"{count} {word}"
            for count, word in ((now.booting, "booting"), (now.requested, "asked for"))
            if count
        ]
        rows = fact_table()
        rows.add_row("nodes now", ", ".join(parts))
        yield rows
    yield from hopping_parts(standing)
    if standing.stages:
        yield stage_table(standing)
    if standing.failures:
        yield failure_table(standing.failures)
    if standing.remarks:
        count = len(standing.remarks)
        title = "Notes" if count <= _LAST_REMARKS else f"Notes, the last {_LAST_REMARKS} of {count:,}"
        yield remark_table(standing.remarks[-_LAST_REMARKS:], title)
    yield _where(status)
    if status.audit is not None:
        yield _agreement(status.audit)


def _headline(status: RunStatus) -> Text:
    record, standing = status.record, status.standing
    text = Text.assemble((f"{record.run} {record.name}", "bold"), f", {record.body.value}: ")
    text.append(_tell_state(status), "bold")
    text.append(f"  [seed {record.seed}{tell_faults(status.faults)}]", "dim")
    text.append(f"\npolicy {policy_reason(status.job, standing.policy)}")
    return text


def _tell_state(status: RunStatus) -> str:
    match status.state:
        case RunState.RUNNING:
            return f"running ({status.writer})"
        case RunState.RESTING:
            return "resting; `elastune resume` goes on with it"
        case RunState.INTERRUPTED:
            return f"interrupted after {plural(status.standing.events, 'event')}"
        case _:
            ending = status.standing.ending
            return status.state.value if ending is None else tell_ending(ending)


def _where(status: RunStatus) -> RenderableType:
    rows = fact_table()
    rows.add_row("started", f"{status.record.created_utc:%Y-%m-%d %H:%M:%S} UTC")
    rows.add_row("events", f"{status.standing.events:,}")
    rows.add_row("folder", f"{status.folder.path}")
    if status.standing.prices is not None:
        rows.add_row("price", tell_prices(status.standing.prices))
    if status.farewell is not None:
        rows.add_row("machines", tell_farewell(status.farewell))
    elif status.state is RunState.INTERRUPTED and status.job.cluster.provider not in _AT_HOME:
        rows.add_row("machines", Text("nobody has looked: `elastune nodes` shows what is alive", "yellow"))
    if status.intent is not None:
        rows.add_row("repeat", repeating(status.folder, status.intent))
    return rows


def _agreement(audit: Audit) -> Text:
    if not audit.is_clean:
        return Text(
            f"audit: the journal says that {plural(audit.stored.events, 'event')} with the hash "
            f"{audit.stored.sha256[:12]} were written, but {audit.found.events:,} with "
            f"{audit.found.sha256[:12]} are there: lines were changed or lost; restore it from a copy",
            "bold red",
        )
    agreed = plural(audit.agreed, "event")
    return Text(f"audit: all {agreed} agree with a replay, command by command, and with their hash", "green")


def _deviation(deviation: Deviation, agreed: int) -> RenderableType:
    rows = fact_table()
    rows.add_row("event", _cut(deviation.event))
    for word, commands in (("journal", deviation.journalled), ("replay", deviation.replayed)):
        other = deviation.replayed if word == "journal" else deviation.journalled
        differing = [line for line in commands if line not in other]
        rows.add_row(
            word, "\n".join(map(_cut, differing)) or f"nothing else ({plural(len(commands), 'command')})"
        )
    return titled(
        f"audit: {plural(agreed, 'event')} agree; in a replay event {deviation.number} causes other commands",
        rows,
    )


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_AT_MOST else f"{line[:_LINE_AT_MOST]}…"
