"""What came of a real run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from elastune.journal import RunFolder
from elastune.providers.rays import Farewell
from elastune.reports.farewell_text import tell_farewell
from elastune.reports.kinds_text import tell_prices
from elastune.reports.simulation_text import account, policy_reason, tell_ending
from elastune.reports.tables import fact_table, stacked
from elastune.runs.offer import Offer
from elastune.runs.result import RunResult
from elastune.runs.standing import Standing


class FinishedRun(Protocol):
    @property
    def result(self) -> RunResult: ...

    @property
    def standing(self) -> Standing: ...

    @property
    def offer(self) -> Offer: ...

    @property
    def folder(self) -> RunFolder: ...

    @property
    def farewell(self) -> Farewell | None: ...


def render_finished(finished: FinishedRun) -> RenderableType:
    return stacked(list(_parts(finished)))


def _parts(finished: FinishedRun) -> Iterator[RenderableType]:
    result, standing, job = finished.result, finished.standing, finished.offer.setup.job
    headline = Text.assemble((job.name, "bold"), ": ", (_outcome(finished), "bold"))
    headline.append(f"  [run {result.run}]", "dim")
    headline.append(f"\npolicy {policy_reason(job, result.policy)}")
    yield headline
    yield from account(standing, "actual")
    rows = fact_table()
    rows.add_row("kept in", Text(str(finished.folder.path)))
    if standing.failures:
        rows.add_row("tracebacks", Text(f"{finished.folder.logs}, a file for each trial"))
    rows.add_row("look at it", f"elastune report {result.run}")
    if standing.prices is not None:
        rows.add_row("price", tell_prices(standing.prices))
    if finished.farewell is not None:
        rows.add_row("machines", tell_farewell(finished.farewell))
    yield rows
    if result.best is not None and result.best.checkpoint is not None:  # on one line, to be copied
        model = Text.assemble(("the best model: ", "bold"), result.best.checkpoint)
        model.no_wrap, model.overflow = True, "ignore"
        yield model


def _outcome(finished: FinishedRun) -> str:
    """How it ended; if nothing came of it, why."""
    standing = finished.standing
    if standing.has_failed and standing.failures:
        first = standing.failures[0]
        return f"failed, {first.trials} of {standing.trials} trials with {_last_line(first.error)}"
    return tell_ending(finished.result.ending)


def _last_line(error: str) -> str:
    return error.strip().splitlines()[-1] if error.strip() else "an error"
