"""What the policy that measures does with its nodes, its time and its money."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastune.core.commands import Barrier, ReleaseNodes, Train
from elastune.history.measured import Measurements, measure
from elastune.journal.writer import MemoryJournal
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.profiling import Effort
from elastune.runs.simulation import Simulation, unnamed
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import CheckedRun, job_of

LINEAR = {str(slots): float(slots) for slots in (1, 2, 4, 8, 16)}
ONE_SLOT_PER_NODE = {
    "slots_per_node": 1, "max_nodes": 16, "price_per_hour": 36.0, "minimum_charge": 60.0, "queue": 1.0,
    "init": 2.0,
}  # fmt: skip


def measured(effort: Effort | None = None, faults: Faults = NO_FAULTS, **changes: object) -> Measurements:
    """Iterations of 10 s on one slot, five minutes, 16 nodes of one slot."""
    given = {"profile__speedup": LINEAR, "cluster": ONE_SLOT_PER_NODE, **changes}
    setup = prepare(job_of(**given), "profile")
    setup = replace(setup, measuring=(effort or Effort(boots=0)).to_options())
    journal = MemoryJournal()
    run = Simulation(setup, seed=1, journal=journal, record=unnamed(setup), faults=faults)
    run.run()
    assert run.core.state.ended == "complete"
    return measure(journal.read(run.record.run))


def test_sizes_double_beyond_two_nodes() -> None:
    found = measured(search__max_slots_per_trial=8)
    assert list(found.iterations) == [1, 2, 4, 8]
    assert not found.unmeasured


def test_no_size_below_the_smallest_gang_is_needed() -> None:
    found = measured(search__min_slots_per_trial=2, search__max_slots_per_trial=8)
    assert sorted(found.iterations) == [2, 4, 8]


def test_a_size_after_one_that_did_not_pay_is_left_out_with_the_reason() -> None:
    found = measured(profile__speedup={"2": 1.9, "4": 1.95})
    assert sorted(found.iterations) == [1, 2, 4]
    assert found.unmeasured == ["8, 16 slots: 4 slots are only 1.03 times as fast as 2"]


def test_a_size_for_which_there_is_no_time_is_left_out_with_the_reason() -> None:
    found = measured(Effort(boots=0, most_s=300), cluster__init=60.0)
    assert max(found.iterations) < 16
    why = found.unmeasured[0]
    assert "slots: they need about 1m" in why
    assert why.endswith("is left")


def test_a_size_for_which_there_is_no_money_is_left_out_with_the_reason() -> None:
    found = measured(Effort(boots=0, most_s=900, most_usd=6.0))
    assert max(found.iterations) < 16
    assert "slots: they need about $" in found.unmeasured[0]


def test_a_budget_that_refuses_the_nodes_of_a_size_leaves_it_out() -> None:
    found = measured(Effort(boots=0, most_s=900), budget=8.0)
    assert 1 <= max(found.iterations) < 16
    assert found.unmeasured


def test_nodes_that_never_come_are_not_waited_for() -> None:
    found = measured(Effort(boots=0, most_s=2000), faults=Faults(nodes=NodeFaults(capacity=2)))
    assert sorted(found.iterations) == [1, 2]
    assert "its nodes were not up within" in found.unmeasured[0]


def test_where_the_first_configurations_fail_others_are_tried_before_more_nodes_are_paid_for() -> None:
    def learn(config: dict[str, float], iteration: int) -> float:
        if config["x"] > 0.3:
            raise ValueError("too large")
        return config["x"]

    setup = prepare(job_of(learn, profile__speedup=LINEAR, cluster=ONE_SLOT_PER_NODE), "profile")
    run = CheckedRun(setup)
    run.run()
    failed = [trial for trial in run.state.trials.values() if trial.error is not None]
    assert 0 < len(failed) < len(run.state.trials)
    trained = [command for _, command in run.commands if isinstance(command, Train)]
    larger = next(place for place, command in enumerate(trained) if len(command.gang) > 1)
    assert any(run.state.trials[command.trial].error is None for command in trained[:larger])


@pytest.mark.parametrize("slots", [1, 4])
def test_all_configurations_are_measured_at_the_smallest_size(slots: int) -> None:
    found = measured(Effort(boots=0, most_s=900), cluster__slots_per_node=slots)
    assert set(found.iterations[1]) == set(range(Effort().configurations))


def test_boots_leave_the_time_to_the_other_configurations() -> None:
    found = measured(Effort(boots=4), search__max_slots_per_trial=1, cluster__slots_per_node=2)
    assert set(found.iterations[1]) == set(range(Effort().configurations))
    assert set(found.boot) == {1, 2, 4}
    assert not found.unmeasured


def test_nodes_that_the_other_configurations_do_not_need_are_released() -> None:
    setup = prepare(job_of(profile__speedup=LINEAR, cluster=ONE_SLOT_PER_NODE), "profile")
    run = CheckedRun(setup)
    run.run()
    assert run.state.ended == "complete"
    # Five other configurations, after gangs of 16 slots, on five of the 16 nodes.
    last = max(at_s for at_s, command in run.commands if isinstance(command, Train))
    released = [(at_s, c.nodes) for at_s, c in run.commands if isinstance(c, ReleaseNodes)]
    assert released[0][0] <= last
    assert len(released[0][1]) == 11


def test_every_step_that_reaches_its_end_passes_a_barrier() -> None:
    run = CheckedRun(prepare(job_of(profile__speedup={"2": 2.0}), "profile"))
    run.run()
    stages = [command.stage for _, command in run.commands if isinstance(command, Barrier)]
    assert stages == list(range(len(stages)))
    assert len(stages) > 2
