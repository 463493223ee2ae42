"""Measuring a job before it is planned."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from elastune.api.arguments import AnyJob, as_job
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

# Share of a deadline for measuring; more where that is less than a boot takes.
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
            f"nothing could be measured, all trials failed: {error}; see the tracebacks in "
            f"{finished.folder.logs}"
        )
    if not measurements.startup:
        waited = format_duration(finished.result.actual.jct_seconds)
        raise ExecutionError(
            f"nothing could be measured: no node was up after {waited} (run {finished.result.run}); give the "
            "job a later deadline, or measure with `elastune profile`, which may take longer"
        )
    path = finished.folder.profile
    fitted = keep(measurements, path, key)
    if out is not None:
        path = Path(out)
        keep(measurements, path, key)
    took = finished.result.actual
    return Profiled(measurements=measurements, profile=fitted, path=path, key=key, took=took)


def describe_measured(how: Profiled | Path | None) -> str:
    """A line about what `measured` did."""
    if how is None:
        return "the job has a profile"
    if isinstance(how, Path):
        when = datetime.fromtimestamp(how.stat().st_mtime, UTC)
        return (
            f"the same training was measured on {when:%Y-%m-%d at %H:%M} UTC: {how}; `elastune profile` "
            "measures it again"
        )
    took, usd = format_duration(how.took.jct_seconds), format_usd(how.took.cost)
    return f"measuring took {took} and {usd}, deducted from the limits; kept in {how.path}"


def usual_effort(job: Job) -> Effort:
    """For a run without a profile: extra boots are measured only by `elastune profile`."""
    most_s = Effort().most_s if job.deadline is None else _share_of(job.deadline)
    return Effort(boots=0, most_s=most_s)


def _share_of(deadline_s: float) -> float:
    least_s = min(_LEAST_S, _MOST_SHARE * deadline_s)
    return min(Effort().most_s, max(_SHARE * deadline_s, least_s))


def find_profile(job: Job, metric: str, folder: str | Path = RUNS_FOLDER) -> Path | None:
    """The newest measurement of the same code on the same kind of node; None: there is none."""
    key = key_of(job, ship(job, metric))
    profiles = (each.profile for each in run_folders(Path(folder)))
    return next((path for path in profiles if _read(path).get("key") == key), None)


def with_measurements(job: Job, path: Path) -> Job:
    """The job with the profile in the file, and with its boot times where the job has no `cluster.init`."""
    measured = job.with_profile(read_measurements(path))
    by_count = _read(path).get("boot")
    boots = [each for times in by_count.values() for each in times] if isinstance(by_count, dict) else []
    if not boots or "init" in job.cluster.model_fields_set:
        return measured
    init = Normal(statistics.fmean(boots), statistics.stdev(boots)) if len(boots) > 1 else Constant(boots[0])
    return measured.model_copy(update={"cluster": job.cluster.model_copy(update={"init": init})})


def _read(path: Path) -> dict[str, Any]:
    """Empty if the file is missing or damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


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

    The time and cost of measuring are deducted from the limits. The second value says where the profile came
    from. `consent` is called before anything is measured, and raises to prevent it.
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
            raise InfeasibleError(f"measuring used up the {name}; raise it, or give the job a `profile`")
    return with_measurements(job, taken.path).model_copy(update=left), taken
