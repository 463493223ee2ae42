"""Simulated hopping runs beside their quotes, and under every policy."""

from __future__ import annotations

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.journal.writer import MemoryJournal
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.simulation import Simulation, unnamed
from elastune.runs.trial_replay import read_visit_orders
from elastune.runtime.simulated.cloud import Faults
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import checked_run, job_of
from tests.thoroughness import most_telling

HOPPING = {"execution": "hopper", "data": {"partitions": 8}}
SHA = {"algorithm": "sha", "trials": 16, "max_iterations": 9}
FIXED = {"cluster__nodes": 4, "cluster__max_nodes": None}


@most_telling(
    "data",
    {"partitions": 8, "partitions_per_worker": 2},
    {"partitions": 6, "make": "x.py:f", "validation": 0.25, "overlap": True},
    {"partitions": 8},
    {"partitions": 8, "make": "x.py:f", "validation": 0.25},
    {"partitions": 8, "overlap": True},
    quick=2,
)
def test_a_run_ends_when_its_plan_says_it_will(data: dict[str, object]) -> None:
    job = job_of(execution="hopper", data=data, search=SHA, deadline=3000.0)
    run = checked_run(job)
    assert run.state.ended is Ending.COMPLETE
    assert run.seconds == pytest.approx(run.quote.jct_seconds, rel=0.02)
    assert run.usd == pytest.approx(run.quote.cost, rel=0.03)


def test_a_plan_holds_as_many_workers_as_the_data_need() -> None:
    loose = checked_run(job_of(**HOPPING, search=SHA, deadline=3000.0))
    data = {"partitions": 8, "partitions_per_worker": 1}
    tight = checked_run(job_of(execution="hopper", data=data, search=SHA, deadline=3000.0))
    assert loose.quote.peak_nodes < 4
    assert {stage.nodes for bracket in tight.quote.brackets for stage in bracket.stages} == {4}
    shares = [command.shares for _, command in tight.commands if isinstance(command, do.Train)]
    assert {len(share) for each in shares for share in each} == {1}


@pytest.mark.parametrize(
    ("search", "limits"),
    [
        ({"algorithm": "asha", "trials": 12, "max_iterations": 9}, {}),
        ({"algorithm": "hyperband", "max_iterations": 9}, {"deadline": 2000.0}),
        ({"algorithm": "bohb", "max_iterations": 9}, {}),
        ({"algorithm": "seer", "max_iterations": 9}, {"deadline": 600.0, "budget": 10.0}),
        ({"algorithm": "hypersched", "max_iterations": 9}, {"deadline": 300.0, **FIXED}),
        ({"algorithm": "pbt", "trials": 6, "interval": 2, "max_iterations": 6}, {}),
        ({"algorithm": "random", "trials": 6, "max_iterations": 4}, {}),
        ({"algorithm": "random", "trials": 4}, {"deadline": 300.0}),
        ({"algorithm": "e-grid", "max_iterations": 9}, {"deadline": 600.0, "budget": 10.0}),
    ],
    ids=lambda value: str(value.get("algorithm", "")),
)
def test_every_policy_hops(search: dict[str, object], limits: dict[str, object]) -> None:
    run = checked_run(job_of(**HOPPING, search=search, **limits))
    assert run.state.ended in {Ending.COMPLETE, Ending.DEADLINE}
    assert run.state.best is not None
    assert run.state.limits.deadline_s is None or run.seconds <= run.state.limits.deadline_s
    assert any(isinstance(event, ev.VisitEnded) for event, _ in run.told)


def test_the_same_job_and_seed_are_the_same_journal() -> None:
    job = job_of(**HOPPING, search={**SHA, "trials": 6}, profile__spread=0.2)
    faults = Faults(nodes=NodeFaults(lost_per_hour=20.0))
    assert checked_run(job, seed=3, faults=faults).sha256 == checked_run(job, seed=3, faults=faults).sha256


def test_with_few_trials_left_they_train_together_where_that_is_faster() -> None:
    measured = {"1": 1.0, "2": 1.9, "4": 3.7, "8": 7.0}
    job = job_of(**HOPPING, search=SHA, profile__speedup=measured, **FIXED)
    leases = [command for _, command in checked_run(job).commands if isinstance(command, do.Train)]
    assert {len(lease.gang) for lease in leases if lease.visit is None} == {8}
    assert any(lease.visit is not None for lease in leases)
    fewer = job_of(**HOPPING, search={**SHA, "max_slots_per_trial": 4}, profile__speedup=measured, **FIXED)
    bounded = [command for _, command in checked_run(fewer).commands if isinstance(command, do.Train)]
    assert {len(lease.gang) for lease in bounded if lease.visit is None} == {4}
    never = job_of(**HOPPING, search={**SHA, "max_slots_per_trial": 1}, profile__speedup=measured, **FIXED)
    alone = [command for _, command in checked_run(never).commands if isinstance(command, do.Train)]
    assert all(lease.visit is not None for lease in alone)


def test_itineraries_are_what_counted_also_after_losses() -> None:
    job = job_of(**HOPPING, search={"algorithm": "pbt", "trials": 6, "interval": 2, "max_iterations": 6})
    setup = prepare(job)
    journal = MemoryJournal()
    faults = Faults(nodes=NodeFaults(lost_per_hour=60.0), driver_per_hour=20.0, driver_down_s=5.0)
    simulation = Simulation(setup, seed=5, journal=journal, record=unnamed(setup), faults=faults)
    simulation.run()
    ways = read_visit_orders(journal.read(simulation.record.run))
    trials = simulation.core.state.trials
    assert set(ways) == set(trials)
    for number, way in ways.items():
        inherited = 0 if way.parent is None else way.parent[1]
        iterations = [epoch.iteration for epoch in way.epochs]
        assert iterations == list(range(inherited + 1, trials[number].iteration + 1))
        for epoch in way.epochs:
            assert sorted(visit.partition for visit in epoch.visits) == list(range(8)) or not epoch.visits
            assert [visit.done for visit in epoch.visits] == list(range(len(epoch.visits)))
    assert any(way.parent is not None for way in ways.values())
