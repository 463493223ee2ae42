"""Simulated runs of one job: a single one, or every policy on the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from elastune.errors import JobError
from elastune.history.hopping import recall_hopping
from elastune.history.notes import notes_in
from elastune.history.result import Estimate, RunResult
from elastune.history.status import RunStatus, status_of
from elastune.history.summary import PolicySummary, RunDigest, digest_of, summarise_all, terms_of
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.writer import AnyJournal, MemoryJournal
from elastune.runs.campaign_status import Overview
from elastune.runs.simulation import Progress, Simulation
from elastune.runtime.simulated.cloud import Faults, write_faults
from elastune.setup.run_setup import RunSetup
from elastune.wording import plural


class CampaignProgress(NamedTuple):
    done: int
    runs: int
    now_s: float
    expected_s: float
    deadline_s: float | None = None


Watch = Callable[[CampaignProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNaming:
    """The id, the date and the clock of commits, all supplied by the caller."""

    run: RunId
    now_utc: Callable[[], datetime]
    clock: Callable[[], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    setup: RunSetup
    predicted: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    result: RunResult
    standing: RunStatus

    @property
    def digest(self) -> RunDigest:
        return digest_of(self.result.run or "", self.standing, self.result.journal_sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRun:
    run: RunId
    events: int
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """The runs, seed by seed, on each seed one per policy."""

    contestants: tuple[Contestant, ...]
    seeds: tuple[int, ...]
    runs: tuple[SimulatedRun, ...]  # the finished ones
    faults: str = "none"
    folder: RunFolder | None = None  # None: not kept, or kept in the caller's journal
    interrupted: bool = False  # some of the requested runs are missing
    cut: CutRun | None = None  # the run in progress at that time, if any

    @property
    def results(self) -> tuple[RunResult, ...]:
        return tuple(run.result for run in self.runs)

    @property
    def summaries(self) -> tuple[PolicySummary, ...]:
        return self.overview.summaries

    @property
    def overview(self) -> Overview:
        digests = [run.digest for run in self.runs]
        terms = [terms_of(each.setup, each.predicted) for each in self.contestants]
        return Overview(
            name=self.contestants[0].setup.job.name,
            faults=self.faults,
            runs=tuple(digest.run for digest in digests),
            asked=len(self.seeds) * len(self.contestants),
            summaries=summarise_all(terms, digests),
            folder=self.folder,
        )

    def to_dict(self) -> dict[str, object]:
        """`RunResult.to_dict` of a single run; for several runs all of them, and a summary."""
        if len(self.seeds) * len(self.contestants) == len(self.runs) == 1:
            return self.runs[0].result.to_dict()
        return {
            "runs": [result.to_dict() for result in self.results],
            "summary": [summary.to_dict() for summary in self.summaries],
        }


class CampaignInterrupted(KeyboardInterrupt):
    """Ctrl-C; `campaign` has the runs finished by then."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__("the simulation was interrupted")
        self.campaign = campaign


def check(setup: RunSetup, seed: int) -> None:
    """Raise what would fail in the first step, before anything is written."""
    setup.make_policy(seed)
    size, limits = setup.tuning.make_sampler(seed).size, setup.terms.limits
    planned = 0 if setup.quote is None else sum(each.stages[0].trials for each in setup.quote.brackets)
    if size is not None and planned > size:  # the plan's price would be wrong
        raise JobError(
            f"the search starts {planned:,} trials, but the {setup.tuning.sampler.kind} has only "
            f"{plural(size, 'configuration')}; expected at most {size:,} trials, or another search.sampler "
            "(random, or {kind: table, replace: true} for a table)"
        )
    ends = limits.deadline_s is not None or limits.budget_usd is not None
    if setup.needs_a_limit and not (ends or setup.tuning.sampler.is_finite):
        raise JobError(
            f"with the policy {setup.policy} nothing ends this search; expected search.trials or "
            "max_iterations, a deadline, a budget, or search.sampler: grid or table"
        )


def simulate_all(
    contestants: Sequence[Contestant],
    seeds: Sequence[int],
    *,
    faults: Faults,
    journal: AnyJournal | None,
    naming: RunNaming,
    watch: Watch | None = None,
    done: Callable[[Simulation], None] | None = None,
) -> Campaign:
    """Every policy on every seed. Without a journal nothing is kept. `done`: called after each run.

    Raises `CampaignInterrupted` with the finished runs after a KeyboardInterrupt.
    """
    campaign = Campaign(
        contestants=tuple(contestants), seeds=tuple(seeds), runs=(), faults=write_faults(faults)
    )
    runs: list[SimulatedRun] = []
    count = len(contestants) * len(seeds)
    simulation: Simulation | None = None
    try:
        for seed in seeds:
            for each in contestants:
                simulation = None
                progress = _progress(watch, len(runs), count, each)
                record = RunRecord(
                    run=RunId(f"{naming.run}.{len(runs) + 1}" if count > 1 else naming.run),
                    name=each.setup.job.name,
                    created_utc=naming.now_utc(),
                    body=RuntimeKind.SIMULATED,
                    policy=each.setup.policy,
                    seed=seed,
                )
                simulation = Simulation(
                    each.setup, seed=seed, journal=journal or MemoryJournal(), record=record, faults=faults
                )
                simulation.run(progress, clock=naming.clock)
                runs.append(_simulated(simulation, each.predicted))
                if done is not None:
                    done(simulation)
    except KeyboardInterrupt as interrupt:
        cut = None
        if simulation is not None:
            events = simulation.writer.next_number - 1
            cut = CutRun(run=simulation.record.run, events=events, now_s=simulation.body.now_s)
        partial = replace(campaign, runs=tuple(runs), interrupted=True, cut=cut)
        raise CampaignInterrupted(partial) from interrupt
    return replace(campaign, runs=tuple(runs))


def _progress(watch: Watch | None, done: int, runs: int, contestant: Contestant) -> Progress | None:
    if watch is None:
        return None
    expected_s = contestant.predicted.jct_seconds
    deadline_s = contestant.setup.terms.limits.deadline_s
    watch(CampaignProgress(done, runs, 0.0, expected_s, deadline_s))
    return lambda now_s: watch(CampaignProgress(done, runs, now_s, expected_s, deadline_s))


def _simulated(simulation: Simulation, predicted: Estimate) -> SimulatedRun:
    journal, run = simulation.journal, simulation.record.run
    hopping = recall_hopping(journal.read(run), simulation.setup.terms)
    standing = status_of(
        simulation.setup,
        simulation.core.state,
        seed=simulation.seed,
        predicted=predicted,
        remarks=[note for entry in journal.read(run) for note in notes_in(entry)],
        hopping=hopping,
    )
    return SimulatedRun(result=replace(simulation.result(predicted), hopping=hopping), standing=standing)
