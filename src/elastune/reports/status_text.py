"""Where one run stands."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from elastune.reports.simulation_text import policy_reason, tell_ending
from elastune.reports.standing_text import facts, failure_table, promise_table, remark_table, stage_table
from elastune.reports.tables import fact_table, stacked, titled
from elastune.runs.listing import RunState
from elastune.runs.reopening import Audit, RunStatus
from elastune.runs.replay import Deviation
from elastune.units import plural

_LAST_REMARKS = 8
_LINE_AT_MOST = 300


def render_status(status: RunStatus) -> RenderableType:
    if status.audit is not None and status.audit.deviation is not None:
        return stacked([_headline(status), _deviation(status.audit.deviation, status.audit.agreed)])
    return stacked(_parts(status))


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
    text.append(f"  [seed {record.seed}]", "dim")
    text.append(f"\npolicy {policy_reason(status.job, standing.policy)}")
    return text


def _tell_state(status: RunStatus) -> str:
    match status.state:
        case RunState.RUNNING:
            return f"running ({status.writer})"
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
    return rows


def _agreement(audit: Audit) -> Text:
    return Text(
        f"audit: all {plural(audit.agreed, 'event')} agree with a replay, command by command", "green"
    )


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
