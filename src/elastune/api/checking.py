"""Checking a trainable before it is tuned: asked for, and before every real run."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from elastune.api.arguments import AnyJob, as_job, whole_job
from elastune.api.simulating import RUNS_FOLDER
from elastune.checks.checking import carry_out_check, check_key, is_here, judge_sizes, may_form_gangs
from elastune.checks.judging import TimeLimit
from elastune.checks.machine import SLOTS
from elastune.checks.report import CheckFinding, CheckReport, CheckStatus
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.model.quantities import ExpectedError, positive_duration
from elastune.providers.local.provider import refuse_if_connected
from elastune.runs.code_bundle import CodeShipment, ship
from elastune.runs.prepared_run import narrowed, suit
from elastune.setup.run_setup import check_continuing, with_price
from elastune.training.recipe import load
from elastune.training.sharing import HOW_TO_SHARE, Sharing, gang_limit
from elastune.wording import format_duration

_BEFORE_RUN = TimeLimit(120.0)
_KEPT = ".checks"
_NAMED = re.compile(r"(.+\.py|[A-Za-z_][\w.]*):[A-Za-z_][\w.]*")

Say = Callable[[str], None]


def check(
    job: AnyJob | Callable[..., object],
    *,
    address: str | None = None,
    folder: str | Path = RUNS_FOLDER,
    most: float | str = "5m",
    say: Say = lambda _: None,
    **sections: Any,
) -> CheckReport:
    """Try the trainable of a job on one slot of this machine: at most three iterations beside start-up.

    `job` is as for `tune`, or a trainable alone, itself or by its name, `file.py:function`, with `metric`,
    and with `space` unless the file has a variable of that name. The metric is reported and finite; a new
    instance continues from a saved state as if without a pause; the device is what the slot asks for; two
    workers share their work, or every trial is held to one slot; large data are named. The report has a
    finding for each, with the line to change; if some failed, `report.require_fine()` raises. The code runs
    in processes of its own, for `most` at most. `say` is called with progress.
    """
    if (isinstance(job, str) and _NAMED.fullmatch(job)) or (callable(job) and sections.get("search") is None):
        given = _of_one_kind(_job_of(job, sections))
    else:
        given = _of_one_kind(as_job(whole_job(job, sections)))
    shipment = _suited(given, policy=None)
    limit = TimeLimit(_seconds(most), is_asked=True)
    return _anew(given, shipment, address=address, folder=Path(folder), limit=limit, say=say)


def _job_of(trainable: Any, sections: Mapping[str, Any]) -> Job:
    """A job for the check of a trainable alone. The search is only a frame: one trial."""
    user = load(trainable) if isinstance(trainable, str) else trainable
    name = trainable if isinstance(trainable, str) else getattr(user, "__qualname__", type(user).__name__)
    space = sections.get("space")
    if space is None:
        space = getattr(sys.modules.get(user.__module__), "space", None)
    if space is None:
        raise JobError(
            f"{name} has no job file, so its configuration is not known; pass one (--config '{{lr: 0.1}}', "
            "in Python space={'lr': 0.1}), or write a variable `space` into its file"
        )
    if sections.get("metric") is None:
        raise JobError(
            f"{name} has no job file, so its metric is not known; pass the name of a number that it "
            "reports: --metric accuracy, in Python metric='accuracy'"
        )
    frame = {"search": {"algorithm": "random", "trials": 1}, "deadline": "1h", "mode": "max"}
    return Job(**{**frame, **sections, "space": space, "trainable": trainable})


def checked(
    job: Job, *, wanted: bool, address: str | None, folder: str | Path, say: Say, policy: str | None = None
) -> tuple[Job, CheckReport | None]:
    """The job as it may run: refused if a check fails, held to one slot per trial if nothing shows that gangs
    share their work. What was checked before is not checked again; None: no check was `wanted`. `policy`: the
    one that runs, if it is not the job's."""
    job = with_price(job)  # wrong options of a provider are refused before the user's code runs
    if is_here(job, address):
        refuse_if_connected()
    given = _of_one_kind(job)
    shipment = _suited(given, policy)
    if not wanted:
        limit = gang_limit(shipment.most_slots, Sharing.UNCHECKED)
        if limit == 1 and may_form_gangs(given, shipment.most_slots):
            say(
                "the trainable was not checked: every trial is held to one slot, because it does not declare "
                f"most_slots; to use more, {HOW_TO_SHARE}, and leave the check in"
            )
        _say_warnings(judge_sizes(given, shipment), say)
        return _held(job, limit), None
    kept = _kept(given, shipment, address, Path(folder))
    if kept is None:
        say("checking the trainable, a few steps on one slot")
    report = kept or _anew(given, shipment, address=address, folder=Path(folder), limit=_BEFORE_RUN, say=say)
    if kept is None:
        say(summary_of(report))
    _say_warnings([each for each in report.findings if each.about != SLOTS], say)  # the quote warns of slots
    report.require_fine()
    return _held(job, report.most_slots), report


def as_checked(job: Job, *, address: str | None, folder: str | Path) -> Job:
    """The job as an earlier check has found that it may run; as it is if there was none."""
    given = _of_one_kind(job)
    report = _kept(given, _suited(given, policy=None), address, Path(folder))
    return job if report is None else _held(job, report.most_slots)


def _say_warnings(findings: Sequence[CheckFinding], say: Say) -> None:
    for finding in findings:
        if finding.status is CheckStatus.WARNING:
            say("warning: " + "; ".join(finding.lines()))


def summary_of(report: CheckReport) -> str:
    """One line."""
    worst = f"{len(report.failures)} failed" if report.failures else "nothing failed"
    return (
        f"the trainable was checked in {format_duration(report.took_s)}: {worst}; `elastune check` shows all"
    )


def _held(job: Job, most: int | None) -> Job:
    return job if most is None else narrowed(job, most)


def _of_one_kind(job: Job) -> Job:
    """All kinds of nodes train the same code; the first stands for them."""
    return job.of_kind(job.cluster.kinds[0]) if job.cluster.kinds else job


def _suited(job: Job, policy: str | None) -> CodeShipment:
    """The trainable. One that contradicts the job is refused here, before anything is trained or paid."""
    shipment = ship(job, job.unopened_tuning().metric)
    suited = suit(job, shipment)
    if policy is None:
        check_continuing(suited, suited.search)
    return shipment


def _seconds(most: float | str) -> float:
    try:
        return positive_duration(most)
    except ExpectedError as error:
        raise JobError(f"most is {most!r}; expected {error}") from None


def _anew(
    job: Job, shipment: CodeShipment, *, address: str | None, folder: Path, limit: TimeLimit, say: Say
) -> CheckReport:
    path = _path(job, shipment, address, folder)
    output = path.with_suffix(".log")
    report = carry_out_check(job, shipment, address=address, output=output, limit=limit, say=say)
    path.write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    return report


def _kept(job: Job, shipment: CodeShipment, address: str | None, folder: Path) -> CheckReport | None:
    """The report of the same check; None: there is none, or something failed."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        text = _path(job, shipment, address, folder).read_text(encoding="utf-8")
        report = CheckReport.of(json.loads(text))
        return report if report.is_fine else None
    return None


def _path(job: Job, shipment: CodeShipment, address: str | None, folder: Path) -> Path:
    return folder / _KEPT / f"{check_key(job, shipment, address)}.json"
