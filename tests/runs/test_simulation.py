"""A whole run in virtual time: it can be repeated, replayed, audited, killed and resumed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.core import Core
from elastune.errors import ExecutionError, InfeasibleError, InvariantError, JobError
from elastune.history.result import best_of
from elastune.job.job import Job
from elastune.job.policy_choice import choose_policy
from elastune.journal.codec import audit, event_of, replay
from elastune.journal.records import Entry, RunId, RunRecord, RuntimeKind
from elastune.journal.store import Journal
from elastune.journal.writer import AnyJournal, MemoryJournal
from elastune.runs.quotes.quoting import predict
from elastune.runs.simulation import Simulation, belief_of
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import RunSetup, prepare
from tests.fire.portrait import portrait
from tests.fire.trial import RUN
from tests.runs.checked_run import SAMPLES, CheckedRun, checked_run, job_of, run_quickly

ASHA = {"algorithm": "asha", "trials": 9, "max_iterations": 9}
BOTH = pytest.mark.parametrize("search", [{"algorithm": "sha", "trials": 9, "max_iterations": 9}, ASHA])
NOISE = {"distribution": "lognormal", "mean": 10.0, "sd": 4.0}
DYING = Faults(driver_per_hour=100.0, driver_down_s=30.0)


def setup_of(**changes: object) -> RunSetup:
    return prepare(job_of(**changes), samples=SAMPLES)


def simulate(
    setup: RunSetup, *, journal: AnyJournal | None = None, seed: int = 0, faults: Faults = NO_FAULTS
) -> Simulation:
    record = RunRecord(
        run=RUN,
        name="test",
        created_utc=datetime(2026, 1, 1, tzinfo=UTC),
        body=RuntimeKind.SIMULATED,
        policy=setup.policy,
        seed=seed,
    )
    simulation = Simulation(
        setup, seed=seed, journal=journal or MemoryJournal(), record=record, faults=faults
    )
    simulation.run()
    return simulation


class TestRepeating:
    @BOTH
    def test_the_same_job_and_seed_give_the_same_journal_wherever_it_is_kept(
        self, search: Mapping[str, object], tmp_path: Path
    ) -> None:
        setup = setup_of(search=search)
        in_memory = simulate(setup)
        on_disk = simulate(setup, journal=Journal.open(tmp_path / "journal.sqlite"))
        forgetful = simulate(setup, journal=MemoryJournal(keeps_lines=False))
        hashes = {each.writer.sha256 for each in (in_memory, on_disk, forgetful)}
        assert len(hashes) == 1

    def test_a_setup_serves_many_seeds_without_remembering_any(self) -> None:
        setup = setup_of(profile__iteration={"mean": 10.0, "sd": 3.0})
        alone = simulate(setup_of(profile__iteration={"mean": 10.0, "sd": 3.0}), seed=2).writer.sha256
        for seed in (0, 1):
            simulate(setup, seed=seed)
        assert simulate(setup, seed=2).writer.sha256 == alone

    def test_seeds_differ_in_configurations_too(self) -> None:
        setup = setup_of()
        drawn = [
            [trial.config["x"] for trial in run_quickly(setup, seed=seed).trials.values()] for seed in (0, 1)
        ]
        assert drawn[0] != drawn[1]


class TestReplay:
    @BOTH
    def test_the_journal_alone_gives_back_the_run(self, search: Mapping[str, object]) -> None:
        done = simulate(setup_of(search=search))
        fresh = setup_of(search=search).make_core(0)
        again = replay(fresh, done.journal.read(RUN))
        assert portrait(vars(again.state)) == portrait(vars(done.core.state))

    @BOTH
    def test_any_beginning_of_the_journal_is_where_the_run_stood(self, search: Mapping[str, object]) -> None:
        """The portrait is taken on the way, the replay is cut there."""
        setup = setup_of(search=search)
        run = CheckedRun(setup)
        run.start()
        portraits = {}
        while run.step():
            if run.state.events in (10, 25, 40):
                portraits[run.state.events] = portrait(vars(run.core.state))
        run.writer.close()
        entries = list(run.journal.read(RUN))
        assert portraits
        for events, expected in portraits.items():
            again = replay(setup.make_core(0), entries[:events])
            assert portrait(vars(again.state)) == expected

    @BOTH
    def test_an_audit_of_an_honest_journal_finds_nothing(self, search: Mapping[str, object]) -> None:
        done = simulate(setup_of(search=search), faults=DYING)
        assert audit(done.setup.make_core(0), done.journal.read(RUN)) is None

    def test_an_audit_finds_the_first_command_that_was_not_ours(self) -> None:
        done = simulate(setup_of())
        entries = list(done.journal.read(RUN))
        position, chosen = next((i, e) for i, e in enumerate(entries) if len(e.command_lines) > 1 and i > 5)
        entries[position] = replace(chosen, command_lines=chosen.command_lines[1:])
        found = audit(done.setup.make_core(0), entries)
        assert found is not None
        assert (found.number, found.event) == (chosen.number, chosen.event_line)
        assert found.replayed == chosen.command_lines
        assert found.journalled == chosen.command_lines[1:]

    def test_another_job_deviates(self) -> None:
        done = simulate(setup_of())
        other = setup_of(search__trials=8).make_core(0)
        deviation = audit(other, done.journal.read(RUN))
        assert deviation is not None
        assert deviation.number == 1

    def test_a_command_where_an_event_should_be_is_said(self) -> None:
        entry = Entry(number=4, event_line='{"text":"b","topic":"a","type":"Note"}', command_lines=())
        with pytest.raises(ExecutionError, match="entry 4 of the journal begins with a command"):
            event_of(entry)


class TestDriverCrashes:
    def test_a_run_whose_driver_dies_again_and_again_comes_to_the_same_choice(self) -> None:
        """Without noise the best configuration is the best, however often work is lost on the way."""
        setup = setup_of()
        calm = checked_run(setup.job, setup=setup)
        run = checked_run(setup.job, setup=setup, faults=DYING)
        assert sum(isinstance(event, ev.Resumed) for event, _ in run.told) >= 3
        assert run.state.ended is Ending.COMPLETE
        assert run.state.best == calm.state.best
        assert run.seconds >= calm.seconds
        assert run.usd > calm.usd

    def test_what_is_down_is_paid_for(self) -> None:
        run = checked_run(job_of(), faults=DYING)
        down_s = sum(event.down_s for event, _ in run.told if isinstance(event, ev.Resumed))
        assert down_s == pytest.approx(run.body.cloud.down_s)
        assert run.usd == pytest.approx(
            run.body.cloud.provider.bill_usd(run.body.now_s + run.body.cloud.down_s)
        )

    def test_events_are_durable_before_commands_are_carried_out(self, tmp_path: Path) -> None:
        journal = Journal.open(tmp_path / "journal.sqlite")
        done = simulate(setup_of(), journal=journal, faults=DYING)
        entries = list(journal.read(RUN))
        assert len(entries) == done.core.state.events
        again = replay(done.setup.make_core(0), entries)
        assert portrait(vars(again.state)) == portrait(vars(done.core.state))

    def test_a_driver_that_comes_back_knows_its_nodes_and_requests(self) -> None:
        run = CheckedRun(setup_of())
        run.start()
        while not run.state.held:
            run.step()
        belief = belief_of(run.state)
        assert [machine.node for machine in belief.machines] == list(run.state.where)
        assert all(machine.ready_s == 15.0 for machine in belief.machines)
        assert belief.requests == {1}
        assert belief.gone == frozenset()


class TestResults:
    def test_a_result_tells_what_came_of_it(self) -> None:
        setup = setup_of()
        done = simulate(setup)
        result = done.result(predict(setup))
        assert result.ending is Ending.COMPLETE
        assert result.actual.jct_seconds == pytest.approx(result.predicted.jct_seconds)
        assert result.actual.cost == pytest.approx(result.predicted.cost)
        assert (result.trials, result.phases) == (9, {"stopped": 8, "finished": 1})
        assert result.iterations == 9 * 1 + 3 * 3 + 1 * 9
        assert result.events == done.core.state.events
        assert result.journal_sha256 == done.writer.sha256
        assert result.best == best_of(done.core.state)
        data = result.to_dict()
        stages = data["stages"]
        assert isinstance(stages, list)
        assert math.fsum(stage["cost"] for stage in stages) == pytest.approx(result.actual.cost)
        assert math.fsum(stage["seconds"] for stage in stages) == pytest.approx(result.actual.jct_seconds)

    def test_a_run_that_has_not_ended_has_no_result(self) -> None:
        run = CheckedRun(setup_of())
        run.start()
        with pytest.raises(InvariantError, match="has not ended"):
            run.result(predict(run.setup))

    @pytest.mark.parametrize("search", [ASHA, {"algorithm": "pbt", "trials": 8, "max_iterations": 20}])
    def test_without_a_plan_a_prediction_is_the_mean_of_simulations(self, search: dict[str, object]) -> None:
        """With noise, waiting for the slowest takes longer than the mean."""
        noisy = setup_of(search=search, profile__iteration=NOISE, profile__spread=0.3)
        states = [run_quickly(noisy, seed=seed) for seed in range(20, 40)]
        mean_s = math.fsum(state.ended_s or 0.0 for state in states) / len(states)
        mean_usd = math.fsum(state.ledger.accrued_usd(state.now_s) for state in states) / len(states)
        assert predict(noisy).jct_seconds == pytest.approx(mean_s, rel=0.1)
        assert predict(noisy).cost == pytest.approx(mean_usd, rel=0.1)

    def test_limits_that_leave_no_iteration_are_reported_before_the_run(self) -> None:
        with pytest.raises(
            InfeasibleError, match=r"asha: not one iteration would be trained within a deadline"
        ):
            predict(setup_of(search=ASHA, deadline=1.0))

    def test_a_prediction_does_not_train(self) -> None:
        def explodes(config: Mapping[str, float], iteration: int) -> float:
            raise AssertionError("trained")

        job = Job.from_dict({**job_of(search=ASHA).to_dict(), "trainable": explodes})
        assert predict(prepare(job, samples=SAMPLES)).cost > 0.0

    def test_a_curve_that_raises_is_the_fault_of_its_trial_not_of_the_run(self) -> None:
        def raises(config: Mapping[str, float], iteration: int) -> float:
            if config["x"] < 0.5:
                raise KeyError("weights")
            return config["x"]

        run = checked_run(job_of(raises))
        failed = [trial for trial in run.state.trials.values() if trial.error]
        assert failed
        assert all(str(trial.error).endswith("KeyError: 'weights'") for trial in failed)
        assert run.state.ended is Ending.COMPLETE


class TestChoosing:
    @pytest.mark.parametrize(
        ("search", "policy"),
        [
            ({"algorithm": "sha", "trials": 3, "max_iterations": 3}, "rubberband"),
            ({"algorithm": "hyperband", "max_iterations": 3}, "rubberband"),
            (ASHA, "asha"),
        ],
    )
    def test_a_declared_search_is_planned_and_any_other_is_a_policy(
        self, search: Mapping[str, object], policy: str
    ) -> None:
        job = job_of(search=search)
        assert choose_policy(job) == policy
        assert (prepare(job, samples=SAMPLES).quote is not None) == (policy == "rubberband")

    def test_an_asynchronous_search_can_be_run_as_its_synchronous_sister(self) -> None:
        job = job_of(search=ASHA)
        setup = prepare(job, "rubberband", samples=SAMPLES)
        assert setup.quote is not None
        assert [stage.trials for stage in setup.quote.stages] == [9, 3, 1]
        assert checked_run(job, setup=setup).state.ended is Ending.COMPLETE

    def test_a_declared_search_can_be_run_asynchronously(self) -> None:
        run = checked_run(job_of(), policy="asha")
        assert run.state.ended is Ending.COMPLETE

    def test_a_job_without_a_trainable_cannot_be_run(self) -> None:
        with pytest.raises(JobError, match="simulate needs `trainable`"):
            prepare(job_of(None), samples=SAMPLES)


def test_two_cores_of_one_setup_share_nothing_but_plans() -> None:
    setup = setup_of()
    one, other = setup.make_core(0), setup.make_core(0)
    assert isinstance(one, Core)
    one.handle(ev.RunStarted(at_s=0.0, policy="rubberband", seed=0, job={}))
    assert other.state.events == 0
    assert other.state.requests == 0


def test_a_run_is_named_once() -> None:
    journal = MemoryJournal()
    simulate(setup_of(), journal=journal)
    assert [record.run for record in journal.runs()] == [RunId(RUN)]
    with pytest.raises(JobError, match="already"):
        simulate(setup_of(), journal=journal)
