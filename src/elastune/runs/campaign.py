"""Simulated runs of one job: one, or every policy on the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from elastune.bodies.simulated import Faults
from elastune.errors import JobError
from elastune.journal import AnyJournal, Body, MemoryJournal, RunFolder, RunId, RunRecord
from elastune.runs.remarks import Remark, overheard
from elastune.runs.result import Estimate, RunResult
from elastune.runs.setup import RunSetup, choose_policy
from elastune.runs.simulation import Simulation
from elastune.runs.standing import Standing, standing_of
from elastune.runs.summary import PolicySummary, summarise


class Progress(NamedTuple):
    """How far a campaign is: runs done, and the virtual time of the present one."""

    done: int
    runs: int
    now_s: float
    expected_s: float


Watch = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Christening:
    """Where ids and dates come from; both are drawn at the edge."""

    run: RunId
    now_utc: Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A policy ready to run, and what it is expected to take."""

    setup: RunSetup
    predicted: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    result: RunResult
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What came of it: the runs seed by seed, on each seed one per policy."""

    contestants: tuple[Contestant, ...]
    seeds: tuple[int, ...]
    runs: tuple[SimulatedRun, ...]
    folder: RunFolder | None = None
    """Where they are kept; None: nowhere, or in a journal of the caller."""

    @property
    def results(self) -> tuple[RunResult, ...]:
        return tuple(run.result for run in self.runs)

    @property
    def summaries(self) -> tuple[PolicySummary, ...]:
        return tuple(
            summarise(
                [run.standing for run in self.runs if run.result.policy == each.setup.policy],
                mode=each.setup.terms.mode,
            )
            for each in self.contestants
        )

    def to_dict(self) -> dict[str, object]:
        """Of a single run what `RunResult.to_dict` has; of several all of those, and a summary."""
        if len(self.runs) == 1:
            return self.runs[0].result.to_dict()
        return {
            "runs": [result.to_dict() for result in self.results],
            "summary": [summary.to_dict() for summary in self.summaries],
        }


def check(setup: RunSetup, seed: int) -> None:
    """Raise what would be wrong with the first step, before anything is written."""
    setup.make_policy(seed)
    setup.tuning.make_sampler(seed)
    limits = setup.terms.limits
    ends = limits.deadline_s is not None or limits.budget_usd is not None
    counted = setup.quote is not None or setup.search.get("trials") is not None
    if setup.policy != choose_policy(setup.job) and not (ends or counted or setup.tuning.sampler.is_finite):
        raise JobError(
            f"with the policy {setup.policy} nothing ends this search; "
            "expected search.trials, a deadline, a budget, or search.sampler: grid or table"
        )


def simulate_all(
    contestants: Sequence[Contestant],
    seeds: Sequence[int],
    *,
    faults: Faults,
    journal: AnyJournal | None,
    christening: Christening,
    watch: Watch | None = None,
) -> Campaign:
    """Every policy on every seed. Without a journal nothing is kept."""
    runs: list[SimulatedRun] = []
    count = len(contestants) * len(seeds)
    for seed in seeds:
        for each in contestants:
            number = len(runs) + 1
            record = RunRecord(
                run=RunId(f"{christening.run}.{number}" if count > 1 else christening.run),
                name=each.setup.job.name,
                created_utc=christening.now_utc(),
                body=Body.SIMULATED,
                policy=each.setup.policy,
                seed=seed,
            )
            expected_s = each.predicted.jct_seconds
            tell = _teller(watch, number - 1, count, expected_s)
            runs.append(_simulate(each, record, faults, journal or MemoryJournal(), tell))
    return Campaign(contestants=tuple(contestants), seeds=tuple(seeds), runs=tuple(runs))


def _teller(watch: Watch | None, done: int, runs: int, expected_s: float) -> Callable[[float], None] | None:
    if watch is None:
        return None
    watch(Progress(done, runs, 0.0, expected_s))
    return lambda now_s: watch(Progress(done, runs, now_s, expected_s))


def _simulate(
    contestant: Contestant,
    record: RunRecord,
    faults: Faults,
    journal: AnyJournal,
    tell: Callable[[float], None] | None,
) -> SimulatedRun:
    setup, predicted = contestant.setup, contestant.predicted
    simulation = Simulation(setup, seed=record.seed, journal=journal, record=record, faults=faults)
    simulation.run(tell)
    remarks: list[Remark] = []
    for _ in overheard(journal.read(record.run), remarks):
        pass
    standing = standing_of(
        setup, simulation.core.state, seed=record.seed, predicted=predicted, remarks=remarks
    )
    return SimulatedRun(result=simulation.result(predicted), standing=standing)
