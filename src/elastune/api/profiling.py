"""Measuring a job before it is planned."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from elastune.api.caller import AnyJob, as_job
from elastune.api.running import Nudge, carry_out_run
from elastune.api.simulating import RUNS_FOLDER
from elastune.errors import ExecutionError, InfeasibleError
from elastune.history.measured import measure
from elastune.job.job import Job
from elastune.job.measurement_files import read_measurements
from elastune.journal.run_folders import run_folders
from elastune.journal.store import Journal
from elastune.model.distributions import Constant, Normal
from elastune.runs.code_bundle import ship
from elastune.runs.profiling import Effort, Profiled, keep, key_of, prepare_profiling
from elastune.runs.real import Watch
from elastune.wording import format_duration, format_usd

# Of a deadline, so much for measuring; where that is hardly a boot, more.
_SHARE = 0.2
_LEAST_S = 30.0
_MOST_SHARE = 0.5


def profile(
    job: AnyJob,
    *,
    effort: Effort | None = None,
    address: str | None = None,
    folder: str | Path = RUNS_FOLDER,
    out: str | Path | None = None,
    watch: Watch | None = None,
    nudge: Nudge = lambda: None,
) -> Profiled:
    """Measure how a training scales: iterations on 1, 2, 4, ... slots, start-up, saves, boots.

    It runs on the machines of the job, for a bounded time. The result is kept in a folder of its own under
    `folder`, and in the file `out`, which a job can name as its `profile`.
    """
    given = as_job(job)
    prepared = prepare_profiling(given, effort or Effort(), seed=given.seed, address=address)
    finished = carry_out_run(prepared, folder=folder, watch=watch, nudge=nudge)
    journal = Journal.open(finished.folder.journal, read_only=True)
    measurements = measure(journal.read(finished.record.run))
    key = key_of(given, prepared.shipment)
    if not measurements.iterations and finished.standing.failures:
        error = finished.standing.failures[0].error
        raise ExecutionError(
            f"nothing could be measured, all trials failed: {error}; their tracebacks are in "
            f"{finished.folder.logs}"
        )
    if not measurements.startup:
        took = format_duration(finished.result.actual.jct_seconds)
        raise ExecutionError(
            f"nothing could be measured: after {took} no node was up (run {finished.result.run}); give the "
            "job a later deadline, or measure with `elastune profile`, which may take longer"
        )
    path = finished.folder.profile
    fitted = keep(measurements, path, key)
    if out is not None:
        path = Path(out)
        keep(measurements, path, key)
    return Profiled(
        measurements=measurements, profile=fitted, path=path, key=key, took=finished.result.actual
    )


def tell_measured(how: Profiled | Path | None) -> str:
    """What `measured` did, in words."""
    if how is None:
        return "the job has a profile"
    if isinstance(how, Path):
        when = datetime.fromtimestamp(how.stat().st_mtime, UTC)
        return (
            f"the same training was measured on {when:%Y-%m-%d at %H:%M} UTC: {how}; `elastune profile` "
            "measures it anew"
        )
    took, usd = format_duration(how.took.jct_seconds), format_usd(how.took.cost)
    return f"measuring took {took} and {usd}, which the limits are less by now; kept in {how.path}"


def usual_effort(job: Job) -> Effort:
    """For a run that nobody has measured before: nodes that only boot are left to those who ask for them."""
    most_s = Effort().most_s if job.deadline is None else _share_of(job.deadline)
    return Effort(boots=0, most_s=most_s)


def _share_of(deadline_s: float) -> float:
    least_s = min(_LEAST_S, _MOST_SHARE * deadline_s)
    return min(Effort().most_s, max(_SHARE * deadline_s, least_s))


def find_profile(job: Job, metric: str, folder: str | Path = RUNS_FOLDER) -> Path | None:
    """The newest measurement of the same code on the same kind of node; None: there is none."""
    key = key_of(job, ship(job, metric))
    for each in run_folders(Path(folder)):
        if _read(each.profile).get("key") == key:
            return each.profile
    return None


def with_measurements(job: Job, path: Path) -> Job:
    """The job with what the file tells; also how nodes boot, where the job does not say so."""
    measured = job.with_profile(read_measurements(path))
    told = _read(path).get("boot")
    boots = [seconds for values in told.values() for seconds in values] if isinstance(told, dict) else []
    if not boots or "init" in job.cluster.model_fields_set:
        return measured
    init = Normal(statistics.fmean(boots), statistics.stdev(boots)) if len(boots) > 1 else Constant(boots[0])
    return measured.model_copy(update={"cluster": job.cluster.model_copy(update={"init": init})})


def _read(path: Path) -> dict[str, Any]:
    """Empty if there is no such file, or if it is not what was written."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def measured(
    job: Job,
    *,
    address: str | None = None,
    folder: str | Path = RUNS_FOLDER,
    watch: Watch | None = None,
    nudge: Nudge = lambda: None,
    consent: Callable[[Effort], None] = lambda _: None,
) -> tuple[Job, Profiled | Path | None]:
    """A job that can be planned: as it is if it has a profile, else with one that was kept or is made now.

    What measuring takes is taken off the deadline and the budget. The second value tells what was done.
    `consent` is called before anything is measured, and raises where nobody wants that.
    """
    if job.is_measured:
        return job, None
    kept = find_profile(job, job.unopened_tuning().metric, folder)
    if kept is not None:
        return with_measurements(job, kept), kept
    effort = usual_effort(job)
    consent(effort)
    taken = profile(job, effort=effort, address=address, folder=folder, watch=watch, nudge=nudge)
    left = {
        "deadline": None if job.deadline is None else job.deadline - taken.took.jct_seconds,
        "budget": None if job.budget is None else job.budget - taken.took.cost,
    }
    for name, value in left.items():
        if value is not None and value <= 0.0:
            raise InfeasibleError(
                f"measuring took all of the {name}; give the job a `profile`, or more of it"
            )
    return with_measurements(job, taken.path).model_copy(update=left), taken
