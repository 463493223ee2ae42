"""The status of one run, its result, and the status of a simulated campaign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from elastune.core.commands import Ending
from elastune.journal.codec import Deviation
from elastune.journal.run_commands import command_for
from elastune.model.continuing import Continuing
from elastune.providers.registry import is_elsewhere
from elastune.runs.campaign_status import CampaignStatus, Unfinished
from elastune.runs.reopening import Audit, ReopenedRun
from elastune.runs.run_files import repeating
from elastune.runs.run_list import RunState
from elastune.views.table import Column, Table, fact_table, make_table, stacked, terminal_table, titled
from elastune.views.terminal.policy import describe_prices
from elastune.views.terminal.run import (
    account,
    describe_faults,
    describe_final_check,
    describe_outcome,
    policy_reason,
)
from elastune.views.terminal.simulation import render_overview, where_several
from elastune.wording import format_duration, plural

if TYPE_CHECKING:
    from elastune.runs.real import FinishedRun


_LINE_AT_MOST = 300
_MOST_UNFINISHED = 8
_TRACEBACK_LINES = 12
# How a run that ended before its search goes on.
_TO_BE_EXTENDED: dict[Ending, tuple[str, ...]] = {
    Ending.DEADLINE: ("--deadline", "+20m"),
    Ending.BUDGET: ("--budget", "+5"),
    Ending.STOPPED: (),
}


def render_status(status: ReopenedRun) -> RenderableType:
    if status.audit is not None and status.audit.deviation is not None:
        return stacked([_headline(status), _deviation(status.audit.deviation, status.audit.agreed)])
    return stacked(_parts(status))


def render_campaign_status(status: CampaignStatus) -> RenderableType:
    """As `simulate` shows it, and the runs that are not complete."""
    overview = status.overview
    none = f"{overview.name}, simulated: none of {plural(overview.asked, 'run')} is complete"
    parts: list[RenderableType] = list(render_overview(overview)) if overview.runs else [Text(none)]
    if status.unfinished:
        parts.append(terminal_table(_unfinished_table(status.unfinished)))
    facts = list(where_several(overview)) if overview.runs else []
    if status.intent is not None and overview.folder is not None:
        facts.append(("repeat", repeating(overview.folder, status.intent)))
    parts.append(fact_table(facts))
    return stacked(parts)


def _unfinished_table(runs: Sequence[Unfinished]) -> Table:
    columns: list[Column[Unfinished]] = [
        Column("run", lambda each: each.run, is_text=True),
        Column("policy", lambda each: each.policy, is_text=True),
        Column("seed", lambda each: f"{each.seed}"),
        Column("state", lambda each: each.state.value, is_text=True),
        Column("time", lambda each: each.seconds, format_duration),
    ]
    more = len(runs) - _MOST_UNFINISHED
    title = "Not complete" + (f" ({more:,} more)" if more > 0 else "")
    return make_table(columns, runs[:_MOST_UNFINISHED], title=title)


def _parts(status: ReopenedRun) -> Iterator[RenderableType]:
    standing = status.standing
    yield _headline(status)
    so_far = "so far" if standing.ending is None else "in the end"
    yield from account(standing, so_far, last_notes=True)
    yield fact_table(_where(status))
    if status.audit is not None:
        yield _agreement(status.audit)


def _headline(status: ReopenedRun) -> Text:
    record, standing = status.record, status.standing
    text = Text.assemble((f"{record.run} {record.name}", "bold"), f", {record.body.value}: ")
    text.append(_describe_state(status), "bold")
    text.append(f"  [seed {record.seed}{describe_faults(status.faults)}]", "dim")
    text.append(f"\npolicy {policy_reason(status.job, standing.policy)}")
    return text


def _describe_state(status: ReopenedRun) -> str:
    match status.state:
        case RunState.RUNNING:
            return f"running ({status.writer})"
        case RunState.SUSPENDED:
            command = command_for("resume", status.folder, status.record.run)
            return f"suspended; `{command}` continues it"
        case RunState.INTERRUPTED:
            return f"interrupted after {plural(status.standing.events, 'event')}"
        case _:
            over = status.standing.ending is not None
            return describe_outcome(status.standing) if over else status.state.value


def _where(status: ReopenedRun) -> Iterator[tuple[str, str | Text]]:
    yield "started", f"{status.record.created_utc:%Y-%m-%d %H:%M:%S} UTC"
    yield "events", f"{status.standing.events:,}"
    yield "folder", f"{status.folder.path}"
    if status.standing.prices is not None:
        yield "price", describe_prices(status.standing.prices)
    if status.final_check is not None:
        yield "machines", describe_final_check(status.final_check, status.folder)
    elif status.state is RunState.INTERRUPTED and is_elsewhere(status.job.cluster.provider):
        yield "machines", Text("not checked: `elastune nodes` lists running nodes", "yellow")
    if status.intent is not None:
        yield "repeat", repeating(status.folder, status.intent)


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
    sides = (
        ("journal", deviation.journalled, deviation.replayed),
        ("replay", deviation.replayed, deviation.journalled),
    )
    facts = [("event", _cut(deviation.event))]
    for word, commands, others in sides:
        differing = "\n".join(_cut(line) for line in commands if line not in others)
        facts.append((word, differing or f"nothing else ({plural(len(commands), 'command')})"))
    events = plural(agreed, "event")
    title = f"audit: {events} agree; in a replay event {deviation.number} causes other commands"
    return titled(title, fact_table(facts))


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_AT_MOST else f"{line[:_LINE_AT_MOST]}…"


def render_finished(finished: FinishedRun) -> RenderableType:
    return stacked(_finished_parts(finished))


def _finished_parts(finished: FinishedRun) -> Iterator[RenderableType]:
    result, standing, job = finished.result, finished.standing, finished.prepared.setup.job
    headline = Text.assemble((job.name, "bold"), ": ", (describe_outcome(standing), "bold"))
    headline.append(f"  [run {result.run}]", "dim")
    headline.append(f"\npolicy {policy_reason(job, result.policy)}")
    yield headline
    yield from account(standing, "actual")
    if standing.traceback is not None:
        yield titled("The error", Text(_last_lines(standing.traceback)))
    yield fact_table(_kept(finished))
    if result.best is not None and job.continuing is not Continuing.CHECKPOINT:
        yield Text(
            "no model is kept, because the trainable has no save: train it again with the best configuration"
        )
    elif result.best is not None and result.best.checkpoint is not None:  # on one line, to be copied
        model = Text.assemble(("the best model: ", "bold"), result.best.checkpoint)
        model.no_wrap, model.overflow = True, "ignore"
        yield model


def _kept(finished: FinishedRun) -> Iterator[tuple[str, str | Text]]:
    standing, run = finished.standing, finished.result.run
    yield "kept in", f"{finished.folder.path}"
    if standing.failures:
        yield "tracebacks", f"{finished.folder.logs}, a file for each trial"
    yield "look at it", command_for("report", finished.folder, run)
    if (more := _TO_BE_EXTENDED.get(finished.result.ending)) is not None:
        yield "go on", command_for("extend", finished.folder, run, *more)
    if standing.prices is not None:
        yield "price", describe_prices(standing.prices)
    if finished.final_check is not None:
        yield "machines", describe_final_check(finished.final_check, finished.folder)


def _last_lines(error: str) -> str:
    return "\n".join(error.strip().splitlines()[-_TRACEBACK_LINES:])
