"""Changing a run: stop it or a trial of it, add a configuration, extend its limits.

A run that goes on is asked through its control channel; one that has ended, or was suspended, goes on in this
process.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elastune.api.foreground import Interrupts, said, watching
from elastune.api.running import NewLimits, run_on
from elastune.api.simulating import RUNS_FOLDER
from elastune.core.core import Core
from elastune.core.events import RunExtended
from elastune.curves.source import Reference
from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.history.result import RunResult
from elastune.job.job import Job
from elastune.job.sampling import parse_configuration
from elastune.journal.records import RuntimeKind, Summary
from elastune.journal.run_commands import command_for
from elastune.journal.run_folders import FoundRun, find_run
from elastune.journal.store import Journal
from elastune.runs.control.channel import ControlFolder, RequestAnswer
from elastune.runs.control.forecast import ExtensionForecast, forecast
from elastune.runs.control.granting import declared_trials
from elastune.runs.control.requests import (
    AddConfig,
    Extension,
    RefusedRequestError,
    RunRequest,
    StopRun,
    StopTrial,
    SuspendRun,
    describe,
)
from elastune.runs.prepared_run import spends_money
from elastune.runs.real import FinishedRun, Nudge, Watch
from elastune.runs.reopening import setup_of, taken_in
from elastune.runs.resuming import Continuation, take_up
from elastune.setup.run_setup import MEASURING, RunSetup


def stop(
    run: str | Path,
    *,
    trial: int | None = None,
    suspend: bool = False,
    folder: str | Path = RUNS_FOLDER,
    reason: str = "stop was requested",
) -> str:
    """Ask the driver of a run to shut it down: it saves, releases all nodes and keeps the best model.

    `trial`: only this trial ends, at once, and the search goes on. `suspend`: the run can be resumed. Returns
    the id of the run as soon as its driver has accepted, within a second as a rule.
    """
    if trial is not None and suspend:
        raise JobError("trial and suspend are given; expected one of them: trials are stopped, not suspended")
    request: RunRequest = SuspendRun(reason=reason) if suspend else StopRun(reason=reason)
    if trial is not None:
        request = StopTrial(trial=trial, reason=reason)
    found = find_run(Path(folder), str(run))
    ask(found, request)
    return found.record.run


def add(run: str | Path, config: Mapping[str, object], *, folder: str | Path = RUNS_FOLDER) -> str:
    """Try this configuration: the next new trial of a running search gets it. Values that are missing are
    drawn. Returns the id of the run."""
    found = find_run(Path(folder), str(run))
    ask(found, AddConfig(config=parse_configuration(config)))
    return found.record.run


def ask(found: FoundRun, request: RunRequest) -> RequestAnswer:
    """Send a request to the living driver of a run and wait for its answer.

    Raises `RefusedRequestError` with the driver's reason, and `JobError` if there is no driver.
    """
    run = found.record.run
    journal = Journal.open(found.journal, read_only=True)

    def is_alive() -> bool:
        summary = _summary_of(found, journal)
        return summary is not None and summary.writer is not None

    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {run} is simulated; only real runs can be changed")
    if not is_alive():
        raise JobError(f"run {run} is not running")
    control = ControlFolder(found.folder)
    stays = isinstance(request, StopRun)
    answer = control.answer_to(control.send(request), is_alive, stays=stays)
    if answer is None and not is_alive():
        summary = _summary_of(found, journal)
        if summary is None or summary.last is None:
            raise ExecutionError(f"run {run} has not started; its command says why")
        raise ExecutionError(
            f"the driver of run {run} ended before it answered; `{command_for('status', found.folder, run)}` "
            "shows what it did"
        )
    if answer is None:
        then = "it will stop as soon as it can" if stays else "the request is withdrawn"
        raise ExecutionError(f"the driver of run {run} does not answer; {then}; try again in a moment")
    if not answer.accepted:
        raise RefusedRequestError(f"run {run} refuses: {answer.text}")
    return answer


def _summary_of(found: FoundRun, journal: Journal) -> Summary | None:
    """None: its command has removed what it had begun, because the run could not start."""
    try:
        return journal.summary(found.record.run)
    except ElastuneError:
        if found.journal.exists():
            raise
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedExtension:
    """Checked and predicted; nothing is changed yet. `continuation` None: the run has a living driver."""

    found: FoundRun
    request: Extension
    event: RunExtended
    text: str
    forecast: ExtensionForecast
    job: Job
    continuation: Continuation | None

    @property
    def spends_money(self) -> bool:
        address = None if self.continuation is None else self.continuation.prepared.address
        return address is None and spends_money(self.job)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedRun:
    """`result` None: the run goes on in its own process."""

    run: str
    text: str
    forecast: ExtensionForecast
    result: RunResult | None = None

    def to_dict(self) -> dict[str, object]:
        result = {} if self.result is None else {"result": self.result.to_dict()}
        return {"run": self.run, "accepted": self.text, "forecast": self.forecast.to_dict(), **result}


def prepare_extension(
    found: FoundRun, request: Extension, *, trainable: Reference | None = None, address: str | None = None
) -> PreparedExtension:
    """Raises `RefusedRequestError` if the run cannot use the new limits."""
    run, journal = found.record.run, Journal.open(found.journal, read_only=True)
    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {run} is simulated and cannot be extended; simulate it again with other limits")
    if found.record.policy == MEASURING:
        raise JobError(f"run {run} is a measurement and cannot be extended; measure again")
    continuation: Continuation | None = None
    if journal.summary(run).writer is not None:
        setup = setup_of(found.record, journal)
        core, _ = taken_in(setup.make_core(found.record.seed), journal.read(run), run, audited=False)
    else:
        continuation = take_up(found, trainable=trainable, address=address, may_have_ended=True)
        setup, core = continuation.prepared.setup, continuation.core
    _refuse_nothing(request, core, found, is_running=continuation is None)
    event = _event(request, setup, core, run)
    return PreparedExtension(
        found=found,
        request=request,
        event=event,
        text=describe(event, core.state.startup_s),
        forecast=forecast(setup, core, event),
        job=setup.job,
        continuation=continuation,
    )


def _refuse_nothing(request: Extension, core: Core, found: FoundRun, *, is_running: bool) -> None:
    """Without new limits only a run that ended before its limits can go on."""
    if not request.is_empty or core.state.ended is not None:
        return
    also = ""
    if not is_running:
        command = command_for("resume", found.folder, found.record.run)
        also = f"; to go on with the present limits, use `{command}`"
    raise JobError(f"nothing is to change; expected a deadline, a budget, trials or max_nodes{also}")


def _event(request: Extension, setup: RunSetup, core: Core, run: str) -> RunExtended:
    declared = declared_trials(setup)
    event = request.event(core.state, declared, f"extend-{secrets.token_hex(6)}", core.state.now_s)
    if (why := core.refusal(event)) is not None:
        raise RefusedRequestError(f"run {run} cannot be extended like this: {why}")
    return event


def carry_out_extension(
    prepared: PreparedExtension, *, watch: Watch | None = None, nudge: Nudge = lambda: None
) -> RequestAnswer | FinishedRun:
    """Ask the living driver, or go on in this process until the run ends."""
    if prepared.continuation is None:
        return ask(prepared.found, prepared.request)
    return run_on(prepared.continuation, NewLimits(), extension=prepared.event, watch=watch, nudge=nudge)


def extend(  # noqa: PLR0913  all by name
    run: str | Path,
    *,
    deadline: float | str | None = None,
    budget: float | str | None = None,
    trials: int | str | None = None,
    max_nodes: int | str | None = None,
    folder: str | Path = RUNS_FOLDER,
    trainable: Reference | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> ExtendedRun:
    """Give a run new limits, each for the whole run or, as text that begins with +, as an addition.

    A running one plans again at once and goes on in its own process. One that has ended (at a limit, stopped,
    or complete where its policy can go on) or was suspended goes on here, from its checkpoints, and its
    result is returned. `trainable`, `address`, `watch` and `progress` are as for `resume`.

    >>> elastune.extend("last", deadline="+30m", budget="+5")
    """
    found = find_run(Path(folder), str(run))
    request = Extension.of(deadline=deadline, budget=budget, trials=trials, max_nodes=max_nodes)
    prepared = prepare_extension(found, request, trainable=trainable, address=address)
    watch = watching(watch, progress)
    with Interrupts(said(watch)) as interrupts:
        done = carry_out_extension(prepared, watch=watch, nudge=interrupts.reason)
    result = done.result if isinstance(done, FinishedRun) else None
    text = done.text if isinstance(done, RequestAnswer) else prepared.text
    return ExtendedRun(run=found.record.run, text=text, forecast=prepared.forecast, result=result)
