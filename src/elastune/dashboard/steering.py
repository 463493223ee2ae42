"""Requests to a run, by the channel of the command line. What a request will cost is shown before it is sent.

A preview gives a ticket; only a ticket can be carried out, once, within some minutes. A run that has ended
goes on in a process of its own, which outlives the dashboard.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elastune.api.controlling import add, ask, prepare_extension, stop
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.job.sampling import parse_configuration
from elastune.journal.records import RuntimeKind
from elastune.journal.run_folders import FoundRun
from elastune.journal.store import Journal
from elastune.runs.control.requests import AddConfig, Extension, RunRequest, StopTrial
from elastune.runs.prepared_run import spends_money
from elastune.runs.reopening import reopen
from elastune.views.page.figures import Json
from elastune.wording import format_duration, format_usd, plural

_VALID_S = 300.0
_REASON = "asked in the dashboard"
_LIMITS = ("deadline", "budget", "trials", "max_nodes")
ACTIONS = ("stop", "suspend", "resume", "extend", "stop-trial", "add")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What was previewed; `carry_out` returns what to say."""

    text: str
    expires_s: float
    carry_out: Callable[[], str]


class Tickets:
    """Each can be used once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, Ticket] = {}
        self._lock = threading.Lock()

    def issue(self, text: str, carry_out: Callable[[], str]) -> str:
        number, now_s = secrets.token_urlsafe(16), self._clock()
        with self._lock:
            self._open = {key: each for key, each in self._open.items() if each.expires_s > now_s}
            self._open[number] = Ticket(text=text, expires_s=now_s + _VALID_S, carry_out=carry_out)
        return number

    def redeem(self, number: object) -> str:
        with self._lock:
            ticket = self._open.pop(str(number), None)
        if ticket is None or ticket.expires_s <= self._clock():
            raise JobError("this request was sent already, or its preview is too old; ask for it again")
        return ticket.carry_out()


Refusal = Callable[[RunRequest], str | None]
"""Why the run would refuse a request now."""


def preview(
    tickets: Tickets, found: FoundRun, action: str, given: Mapping[str, object], refusal: Refusal
) -> Json:
    """What will happen, and a ticket to make it happen. Raises `JobError` if it cannot."""
    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {found.record.run} is simulated; only real runs can be changed")
    match action:
        case "stop" | "suspend":
            return _stopping(tickets, found, suspend=action == "suspend")
        case "stop-trial":
            return _stopping_trial(tickets, found, given, refusal)
        case "add":
            return _adding(tickets, found, given, refusal)
        case "extend":
            return _extending(tickets, found, given)
        case "resume":
            return _resuming(tickets, found)
    raise JobError(f"the action is {action!r}; expected one of: {', '.join(ACTIONS)}")


def _issued(tickets: Tickets, text: str, carry_out: Callable[[], str], **more: object) -> Json:
    return {"text": text, "ticket": tickets.issue(text, carry_out), **more}


def _stopping(tickets: Tickets, found: FoundRun, *, suspend: bool) -> Json:
    _require_driver(found)
    run, after = found.record.run, "all nodes are released and the best model so far is kept"
    text = f"Run {run} saves its models and stops; {after}. Nothing more is spent."
    if suspend:
        text = f"Run {run} saves its models, releases all nodes, and can be resumed. Nothing more is spent."

    def carry_out() -> str:
        stop(found.folder.path, suspend=suspend, reason=_REASON)
        return f"run {run} was asked to {'suspend' if suspend else 'stop'}"

    return _issued(tickets, text, carry_out)


def _stopping_trial(tickets: Tickets, found: FoundRun, given: Mapping[str, object], refusal: Refusal) -> Json:
    _require_driver(found)
    run, trial = found.record.run, _number(given.get("trial"))
    _require_consent(found, refusal(StopTrial(trial=trial, reason=_REASON)))

    def carry_out() -> str:
        stop(found.folder.path, trial=trial, reason=_REASON)
        return f"trial {trial} of run {run} is stopped"

    return _issued(tickets, f"Trial {trial} ends at once; the search goes on without it.", carry_out)


def _adding(tickets: Tickets, found: FoundRun, given: Mapping[str, object], refusal: Refusal) -> Json:
    _require_driver(found)
    config = given.get("config")
    if not isinstance(config, Mapping) or not config:
        raise JobError("the configuration is empty; expected hyperparameters such as {lr: 0.1}")
    _require_consent(found, refusal(AddConfig(config=parse_configuration(config))))

    def carry_out() -> str:
        add(found.folder.path, dict(config))
        return f"the next new trial of run {found.record.run} has this configuration"

    text = "The next new trial gets this configuration; values that are missing are drawn. The limits stay."
    return _issued(tickets, text, carry_out)


def _resuming(tickets: Tickets, found: FoundRun) -> Json:
    run, reopened = found.record.run, reopen(found)
    if reopened.writer is not None:
        raise JobError(f"run {run} is running")
    standing = reopened.standing
    if standing.ending is not None:
        raise JobError(f"run {run} is over ({standing.ending.value}); extend it to go on")
    most = _most(standing.limits.deadline_s, standing.limits.budget_usd)
    spends = spends_money(reopened.job)
    nodes = " It rents nodes and spends money." if spends else ""
    text = f"Run {run} goes on from its checkpoints. So far {standing.actual}. In all at most {most}.{nodes}"
    return _issued(tickets, text, lambda: _start(found, "resume"), spends_money=spends)


def _most(deadline_s: float | None, budget_usd: float | None) -> str:
    """The limits in words."""
    limits = [] if deadline_s is None else [format_duration(deadline_s)]
    limits += [] if budget_usd is None else [format_usd(budget_usd)]
    return " and ".join(limits) or "without any limit of time or money"


def _extending(tickets: Tickets, found: FoundRun, given: Mapping[str, object]) -> Json:
    limits = {key: value for key in _LIMITS if (value := given.get(key)) not in (None, "")}
    prepared = prepare_extension(found, Extension.of(**limits))
    forecast = prepared.forecast
    text = f"So far {forecast.so_far}. "
    if forecast.expected is not None:
        text += f"Expected in all: {forecast.expected}. "
    most = _most(forecast.deadline_s, forecast.budget_usd)
    text += f"At most {most}, on up to {plural(forecast.max_nodes, 'node')}."
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in limits.items()]

    def carry_out() -> str:
        if prepared.continuation is None:
            return ask(found, prepared.request).text
        return _start(found, "extend", *arguments)

    return _issued(tickets, text, carry_out, forecast=forecast.to_dict(), spends_money=prepared.spends_money)


def _start(found: FoundRun, command: str, *arguments: str) -> str:
    """In a process that outlives this one; what it prints is in the folder of the run."""
    path = found.folder.path
    start_command(path / f"{command}.log", command, str(path), *arguments, "--yes", folder=Path.cwd())
    return f"run {found.record.run} goes on; its output is in {path.name}/{command}.log"


def start_command(log: Path, *arguments: str, folder: Path) -> int:
    """`elastune ARGUMENTS` as a session of its own; returns its process id."""
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  our own command
            [sys.executable, "-m", "elastune", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    return process.pid


def _require_driver(found: FoundRun) -> None:
    run = found.record.run
    if Journal.open(found.journal, read_only=True).summary(run).writer is None:
        raise JobError(f"run {run} is not running")


def _require_consent(found: FoundRun, why: str | None) -> None:
    if why is not None:
        raise JobError(f"run {found.record.run} refuses this: {why}")


def _number(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise JobError(f"the trial is {value!r}; expected its number") from None


def preview_start(tickets: Tickets, text: str, *, folder: Path, root: Path) -> Json:
    """A new run of the job, with the question before money is spent."""
    job = Job.from_yaml_text(text, "the job", folder)
    what = "It costs nothing: the nodes are this machine's."
    if spends_money(job):
        what = f"It rents nodes and spends money: at most {_most(job.deadline, job.budget)}."

    def carry_out() -> str:
        root.mkdir(parents=True, exist_ok=True)
        name = f"job-{secrets.token_hex(4)}"
        path, log = root / f"{name}.yaml", root / f"{name}.log"
        path.write_text(text, encoding="utf-8")
        start_command(log, "run", str(path), "--yes", "--runs-folder", str(root), folder=folder)
        return f"the run starts; its output is in {log}"

    return _issued(tickets, f"A run of {job.name} starts. {what}", carry_out, spends_money=spends_money(job))
