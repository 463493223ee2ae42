"""Measuring a job before it is planned."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from elastune.api.arguments import AnyJob, as_job
from elastune.api.running import carry_out_run
from elastune.api.simulating import RUNS_FOLDER
from elastune.checks.checking import is_here
from elastune.checks.report import FirstMeasurement
from elastune.errors import ExecutionError, InfeasibleError, JobError
from elastune.history.measured import measure
from elastune.job.job import Job
from elastune.job.measurement_files import read_measurements
from elastune.journal.run_folders import run_folders
from elastune.journal.store import Journal
from elastune.model.distributions import Constant
from elastune.model.profile import Profile, Speedup, fit_latency
from elastune.runs.code_bundle import ship
from elastune.runs.profiling import Effort, Profiled, as_drawn, keep, key_of, prepare_profiling
from elastune.runs.real import Nudge, Watch
from elastune.runs.run_files import read_boot_logs
from elastune.wording import format_duration

# Share of the limits for measuring; more of a deadline where that is less than a boot takes.
_SHARE = 0.2
_LEAST_S = 30.0
_MOST_SHARE = 0.5

_log = logging.getLogger("elastune")


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
    """Measure how fast a training is: iterations on 1, 2, 4, ... slots and of different configurations,
    start-up, saves, barriers, boots.

    It runs on the machines of the job, for a bounded time. The result is kept in a folder of its own under
    `folder`, and in the file `out`, which a job can name as its `profile`.
    """
    given = as_job(job)
    prepared = prepare_profiling(given, effort or Effort(), seed=given.seed, address=address)
    finished = carry_out_run(prepared, folder=folder, watch=watch, nudge=nudge)
    journal = Journal.open(finished.folder.journal, read_only=True)
    measurements = as_drawn(given, measure(journal.read(finished.record.run)))
    key = key_of(given, prepared.shipment, address)
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
            + "".join(f"\n{each}" for each in read_boot_logs(finished.folder))
        )
    path = finished.folder.profile
    fitted = keep(measurements, path, key)
    if out is not None:
        path = Path(out)
        keep(measurements, path, key)
    took = finished.result.actual
    return Profiled(measurements=measurements, profile=fitted, path=path, key=key, took=took)


def _suffices(job: Job, address: str | None) -> bool:
    """Whether one configuration on one slot of this machine tells enough: no limit has to be kept, and trials
    do not get more slots."""
    is_free = job.deadline is None and job.budget is None
    return is_free and job.search.max_slots_per_trial == 1 and is_here(job, address)


def _profile_of(first: FirstMeasurement) -> Profile:
    return Profile(
        iteration=fit_latency(first.iterations_s),
        speedup=Speedup.of({}),
        startup=Constant(first.startup_s),
        save=Constant(first.save_s),
    )


def describe_measured(how: Profiled | Path | FirstMeasurement | None) -> str:
    """A line about what `measured` did."""
    if how is None:
        return "the job has a profile"
    if isinstance(how, FirstMeasurement):
        seconds = format_duration(min(how.iterations_s))
        return f"there is no limit to keep: expecting {seconds} per iteration, as in the check"
    if isinstance(how, Path):
        when = datetime.fromtimestamp(how.stat().st_mtime, UTC)
        return (
            f"the same training was measured on {when:%Y-%m-%d at %H:%M} UTC: {how}; `elastune profile` "
            "measures it again"
        )
    return f"measuring took {how.took}, deducted from the limits; kept in {how.path}"


def usual_effort(job: Job) -> Effort:
    """For a run without a profile: extra boots are measured only by `elastune profile`."""
    most_s = Effort().most_s if job.deadline is None else _share_of(job.deadline)
    most_usd = None if job.budget is None else _SHARE * job.budget
    return Effort(boots=0, most_s=most_s, most_usd=most_usd)


def _share_of(deadline_s: float) -> float:
    least_s = min(_LEAST_S, _MOST_SHARE * deadline_s)
    return min(Effort().most_s, max(_SHARE * deadline_s, least_s))


def find_profile(
    job: Job, metric: str, folder: str | Path = RUNS_FOLDER, address: str | None = None
) -> Path | None:
    """The newest measurement of the same code on the same kind of node that can be used; None: there is
    none."""
    key = key_of(job, ship(job, metric), address)
    for path in (each.profile for each in run_folders(Path(folder))):
        if _read(path).get("key") != key:
            continue
        try:
            read_measurements(path)
        except JobError as error:
            _log.warning("an earlier measurement cannot be used and is skipped: %s", error)
            continue
        return path
    return None


def with_measurements(job: Job, path: Path) -> Job:
    """The job with the profile in the file, and with its boot times and queueing delays where the job has no
    `cluster.init` and `cluster.queue`."""
    measured, content = job.with_profile(read_measurements(path)), _read(path)
    by_count = content.get("boot")
    boots = [each for times in by_count.values() for each in times] if isinstance(by_count, dict) else []
    seen = {"init": boots, "queue": content.get("queue")}
    found = {
        name: fit_latency(values)
        for name, values in seen.items()
        if isinstance(values, list) and values and name not in job.cluster.model_fields_set
    }
    if not found:
        return measured
    return measured.model_copy(update={"cluster": job.cluster.model_copy(update=found)})


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
    first: FirstMeasurement | None = None,
) -> tuple[Job, Profiled | Path | FirstMeasurement | None]:
    """A job that can be planned: as it is if it has a profile, else with one that was kept or is made now.

    `first` is what a check measured on the way: enough for a job that promises nothing, on one slot. The time
    and cost of measuring are deducted from the limits. The second value says where the profile came from.
    `consent` is called before anything is measured, and raises to prevent it.
    """
    if job.is_measured:
        return job, None
    kept = find_profile(job, job.unopened_tuning().metric, folder, address)
    if kept is not None:
        return with_measurements(job, kept), kept
    if first is not None and _suffices(job, address):
        return job.with_profile(_profile_of(first)), first
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
