"""Simulating a job, listing runs and their status, and replaying a trial of a hopping run."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from elastune.api.arguments import AnyJob, as_job, planned_by, whole
from elastune.errors import JobError
from elastune.history.result import RunResult
from elastune.job.job import Job
from elastune.journal.records import RunId
from elastune.journal.run_folders import USUAL_ROOT, FoundRun, RunFolder, find_run, find_runs
from elastune.journal.run_index import add_to_index
from elastune.journal.store import Journal
from elastune.journal.writer import AnyJournal
from elastune.runs.campaign import (
    Campaign,
    CampaignInterrupted,
    Contestant,
    RunNaming,
    Watch,
    check,
    simulate_all,
)  # fmt: skip
from elastune.runs.campaign_status import CampaignStatus, gather, started_together
from elastune.runs.prepared_run import prepare_best_kind
from elastune.runs.quotes.quoting import predict, with_expectation
from elastune.runs.reopening import ReopenedRun, reopen
from elastune.runs.run_files import RunIntent, write_intent, write_result
from elastune.runs.run_list import RunList, read_list
from elastune.runs.simulation import Simulation
from elastune.runs.warm_start import with_old_trials
from elastune.runtime.simulated.cloud import Faults, parse_faults, write_faults
from elastune.wording import seen

if TYPE_CHECKING:
    from elastune.runs.trial_replay import ReplayedTrial


MOST_SEED = 2**53 - 1
MOST_SEEDS = 100_000
RUNS_FOLDER = str(USUAL_ROOT)


def simulate(
    job: AnyJob,
    *,
    policy: str | None = None,
    planner: str | None = None,
    seed: int | None = None,
    faults: Faults | str = "none",
    journal: str | Path | None = None,
) -> RunResult:
    """Run the whole experiment in virtual time: its duration, its cost, and its best model.

    `policy`, `planner` and `seed` are the job's own unless they are given. `faults` is `none`, `mild`,
    `harsh` or, say, `lost_per_hour=0.2,crash=0.02`. `journal` is a file (or the URL of a database) to which
    every event is written. The same job, seed and faults give the same result to the last bit.
    Raises `JobError` if the job is wrong and `InfeasibleError` if it has a plan and none keeps its limits.
    """
    chosen = _known_faults(faults)
    given = with_old_trials(planned_by(as_job(job), planner, [policy]), Path(RUNS_FOLDER))
    contestants, seeds = _line_up(given, [policy], seed, 1)
    kept = None if journal is None else Journal.open(journal, durable=False)
    return _run(contestants, seeds, chosen, kept, run=new_id()).results[0]


def simulate_many(  # noqa: PLR0913  all by name
    job: AnyJob,
    *,
    policies: Sequence[str] | str = (),
    planner: str | None = None,
    seed: int | None = None,
    seeds: int = 1,
    faults: Faults | str = "none",
    folder: str | Path | None = None,
    watch: Watch | None = None,
) -> Campaign:
    """Several policies (without a name: the job's own) side by side, on the seeds `seed`, `seed` + 1, ...

    A folder for these runs, with their job, plan and journal, is made in `folder`; without it nothing is
    written. `planner` makes the plan of RubberBand. `watch` is called with the progress. Ctrl-C raises
    `CampaignInterrupted` with the complete runs.
    """
    chosen = _known_faults(faults)
    names = _names(policies)
    given = with_old_trials(planned_by(as_job(job), planner, names), Path(folder or RUNS_FOLDER))
    contestants, numbers = _line_up(given, names, seed, seeds)
    run = new_id()
    if folder is None:
        return _run(contestants, numbers, chosen, None, run=run, watch=watch)
    setup = contestants[0].setup
    kept = RunFolder.create(Path(folder), name=setup.job.name, now_utc=now_utc(), run=run)
    quote = next((each.setup.quote for each in contestants if each.setup.quote is not None), None)
    predicted = {each.setup.policy: each.predicted for each in contestants}
    intent = RunIntent(
        seed=numbers[0], seeds=len(numbers), policies=tuple(predicted), faults=write_faults(chosen)
    )
    write_intent(kept, setup.job, intent, quote, predicted)
    add_to_index(kept.path)
    journal = Journal.open(kept.journal, durable=False)
    try:
        campaign = _run(contestants, numbers, chosen, journal, run=run, watch=watch, folder=kept)
    except CampaignInterrupted as interrupted:
        raise CampaignInterrupted(_kept(interrupted.campaign, kept)) from interrupted
    return _kept(campaign, kept)


def campaign_status(run: str | Path, *, folder: str | Path = RUNS_FOLDER) -> CampaignStatus | None:
    """A summary of runs started together; None: `run` is a single run, which `status` shows."""
    found = find_runs(Path(folder), str(run))
    return gather(found) if started_together(found) else None


def list_runs(
    folder: str | Path = RUNS_FOLDER, *, everywhere: bool = False, profiles: bool = False
) -> RunList:
    """The runs in a folder, newest first, and the folders that could not be read.

    `everywhere`: your runs in all folders, from the index in your home. `profiles`: also runs that measure a
    training before it is planned.
    """
    return read_list(None if everywhere else Path(folder), profiles=profiles)


def status(run: str | Path, *, folder: str | Path = RUNS_FOLDER, audit: bool = False) -> ReopenedRun:
    """The status of a run. `run` is a path, the start of an id, or `last`.

    The journal is replayed; `audit` compares every command in it with those of the replay.
    """
    found = reopen(find_run(Path(folder), str(run)), audited=audit)
    if found.job.data is None:
        return found
    from elastune.runs.reading import with_hopping  # noqa: PLC0415

    return with_hopping(found)


def _line_up(
    job: Job, policies: Sequence[str | None], seed: int | None, seeds: int
) -> tuple[list[Contestant], range]:
    """Plan and check everything before anything is written."""
    first = whole("seed", job.seed if seed is None else seed, 0, MOST_SEED)
    numbers = range(first, first + whole("seeds", seeds, 1, MOST_SEEDS))
    twice = [name for name in policies if policies.count(name) > 1]
    if twice:
        raise JobError(f"policy {twice[0]!r} is named twice; name each policy once")
    setups = [with_expectation(prepare_best_kind(job, policy)) for policy in policies]
    for setup in setups:
        check(setup, first)
    return [Contestant(setup=setup, predicted=predict(setup)) for setup in setups], numbers


def _run(
    contestants: Sequence[Contestant],
    seeds: Sequence[int],
    faults: Faults,
    journal: AnyJournal | None,
    *,
    run: RunId,
    watch: Watch | None = None,
    folder: RunFolder | None = None,
) -> Campaign:
    def done(simulation: Simulation) -> None:
        if folder is not None:
            from elastune.views.page.kept_pages import keep_at_end  # noqa: PLC0415

            found = FoundRun(journal=folder.journal, record=simulation.record, folder=folder)
            keep_at_end(found, simulation.core)

    naming = RunNaming(run=run, now_utc=now_utc, clock=time.monotonic)
    return simulate_all(
        contestants, seeds, faults=faults, journal=journal, naming=naming, watch=watch, done=done
    )


def _kept(campaign: Campaign, folder: RunFolder) -> Campaign:
    if campaign.runs:
        write_result(folder, campaign.to_dict(), [run.digest for run in campaign.runs])
    return replace(campaign, folder=folder)


def _names(policies: Sequence[str] | str) -> Sequence[str | None]:
    """A string is one name, not a sequence of letters."""
    return [policies] if isinstance(policies, str) else list(policies) or [None]


def _known_faults(faults: Faults | str) -> Faults:
    if isinstance(faults, Faults):
        return faults
    if not isinstance(faults, str):
        raise JobError(f"faults is {seen(faults)}; expected text such as mild, or a Faults")
    return parse_faults(faults)


def new_id() -> RunId:
    return RunId(secrets.token_hex(3))


def now_utc() -> datetime:
    return datetime.now(UTC)


def replay(
    run: str | Path,
    *,
    trial: int | None = None,
    iteration: int | None = None,
    folder: str | Path = RUNS_FOLDER,
) -> ReplayedTrial:
    """Train a trial again in this process, along the visits recorded in the journal.

    By default the best trial, up to its newest checkpoint. The result has the weights (`state`), and whether
    they equal the run's checkpoint bit for bit (`same`).
    """
    from elastune.runs.trial_replay import retrace  # noqa: PLC0415

    return retrace(find_run(Path(folder), str(run)), trial, iteration)
