"""ASHA: a free place goes to a promotion at the highest rung that has one, else to a new trial."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.job.search import PluginSearch, search_for
from elastune.job.search_options import AshaSearch, SeerSearch
from elastune.model.ids import TrialId
from elastune.policies.registry import PolicySetup, make_policy
from elastune.policies.rungs import Rung, rung_levels
from elastune.providers.simulated_faults import NodeFaults
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import CheckedRun, checked_run, job_of

FAULTS = Faults(nodes=NodeFaults(lost_per_hour=4.0, noticed_per_hour=4.0, refused=0.2), crash=0.05)


def asha(**changes: object) -> Job:
    search = {"algorithm": "asha", "trials": 12, "max_iterations": 9}
    return job_of(**{"search": search, **changes})


def x_of(run: CheckedRun, trial: int) -> float:
    return float(str(run.state.trials[TrialId(trial)].config["x"]))


def test_the_story_of_a_tiny_table() -> None:
    """One node of two slots, six configurations, rungs at 1, 2 and 4, the best half goes on."""
    job = job_of(
        search={"algorithm": "asha", "trials": 6, "max_iterations": 4, "eta": 2, "sampler": "grid"},
        space={"x": {"choice": [0.1, 0.6, 0.3, 0.5, 0.2, 0.4]}},
        cluster={"slots_per_node": 2, "nodes": 1, "price_per_hour": 36.0, "minimum_charge": 0.0},
        profile={"iteration": 10.0},
    )
    run = checked_run(job)
    commands = [(at_s, text) for at_s, text in run.log() if text.startswith("->") and "pause" not in text]
    assert commands == [
        (0.0, "-> draw [0, 1]"),
        (0.0, "-> ask for 1"),
        (0.0, "-> train 0 0..1 on n0:0"),  # 0.1
        (0.0, "-> train 1 0..1 on n0:1"),  # 0.6
        (10.0, "-> draw [2]"),
        (10.0, "-> train 1 1..2 on n0:1"),  # the better of two goes on where it is
        (10.0, "-> train 2 0..1 on n0:0"),  # 0.3
        (20.0, "-> draw [3]"),
        (20.0, "-> draw [4]"),
        (20.0, "-> train 3 0..1 on n0:1"),  # 0.5
        (20.0, "-> train 4 0..1 on n0:0"),  # 0.2
        (
            30.0,
            "-> train 3 1..2 on n0:1",
        ),  # the best half of 0.1 0.3 0.5 0.6 is 0.6, which has gone on, and 0.5
        (30.0, "-> draw [5]"),
        (30.0, "-> train 5 0..1 on n0:0"),  # 0.4
        (40.0, "-> train 5 1..2 on n0:0"),  # the third of six
        (40.0, "-> train 1 2..4 on n0:1"),  # the better of two at the second rung
        (60.0, "-> give back n0"),
        (60.0, "-> end, complete, with 0.604 of trial 1"),
    ]


class TestRungs:
    @pytest.mark.parametrize(
        ("low", "high", "eta", "levels"),
        [
            (1, 9, 3, [1, 3, 9]),
            (1, 10, 3, [1, 3, 9, 10]),
            (2, 3, 3, [2, 3]),
            (4, 4, 3, [4]),
            (1, 50, 4, [1, 4, 16, 50]),
            (1, 12, 1.5, [1, 2, 3, 5, 7, 11, 12]),  # 1 and 1.5 are one level
            (100, 121, 1.1, [100, 110, 121]),  # 100 * 1.1 ** 2 is 121.00000000000001
        ],
    )
    def test_levels_grow_by_eta_up_to_the_last(
        self, low: int, high: int, eta: float, levels: list[int]
    ) -> None:
        assert rung_levels(low, high, eta) == levels

    @given(low=st.integers(1, 40), times=st.integers(1, 100), hundredths=st.integers(101, 500))
    def test_levels_are_distinct_and_rounded_down_exactly(
        self, low: int, times: int, hundredths: int
    ) -> None:
        """Against whole numbers: eta is a count of hundredths."""
        high, expected, power = low * times, [], 0
        while low * hundredths**power < high * 100**power:
            expected.append(low * hundredths**power // 100**power)
            power += 1
        assert rung_levels(low, high, hundredths / 100) == [*dict.fromkeys(expected), high]

    @given(
        values=st.lists(st.integers(0, 30), min_size=1, max_size=30),
        tenths=st.sampled_from([11, 15, 20, 25, 30, 33, 40]),
    )
    def test_only_the_best_part_of_those_that_came_is_promoted_and_each_once(
        self, values: list[int], tenths: int
    ) -> None:
        """Against a sort of everything after every arrival."""
        rung, promoted, eta = Rung(1), set(), tenths / 10
        for number, value in enumerate(values):
            rung.record(float(value), TrialId(number))
            while (trial := rung.promote(eta)) is not None:
                best = sorted((values[i], i) for i in range(number + 1))[: (number + 1) * 10 // tenths]
                assert trial in {i for _, i in best}
                assert trial not in promoted
                promoted.add(trial)
            best = sorted((values[i], i) for i in range(number + 1))[: (number + 1) * 10 // tenths]
            assert {i for _, i in best} <= promoted, "somebody who deserves it waits"


class TestPromotions:
    @pytest.mark.parametrize("mode", ["max", "min"])
    @pytest.mark.parametrize("faults", [NO_FAULTS, FAULTS], ids=["calm", "faults"])
    def test_who_is_promoted_was_among_the_best_of_its_rung(self, mode: str, faults: Faults) -> None:
        """Told from the journal alone."""
        run = checked_run(
            asha(mode=mode, profile__iteration={"mean": 10.0, "sd": 4.0}, search__trials=30, retries=2),
            faults=faults,
        )
        levels = [1, 3, 9]
        sign = -1.0 if mode == "max" else 1.0
        at_rung: dict[int, dict[int, float]] = defaultdict(dict)
        values: dict[int, dict[int, float]] = defaultdict(dict)
        promotions = 0
        for event, commands in run.told:
            if isinstance(event, ev.Progressed):
                for row in event.rows:
                    values[event.trial][row.iteration] = row.metrics["score"]
                    if row.iteration in levels:
                        at_rung[row.iteration][event.trial] = sign * row.metrics["score"]
            for command in commands:
                if isinstance(command, do.Train) and command.until_iteration > 1:
                    below = levels[levels.index(command.until_iteration) - 1]
                    ranked = sorted(at_rung[below], key=lambda n: (at_rung[below][n], n))
                    assert command.trial in ranked[: len(ranked) // 3]
                    promotions += 1
        assert promotions >= 8

    @pytest.mark.parametrize("faults", [NO_FAULTS, FAULTS], ids=["calm", "faults"])
    def test_a_trial_never_goes_through_a_lower_rung_again_and_starts_from_its_checkpoint(
        self, faults: Faults
    ) -> None:
        run = checked_run(asha(search__trials=20, retries=2), seed=2, faults=faults)
        goals: dict[int, int] = {}
        saved: dict[int, int] = defaultdict(int)
        for event, commands in run.told:
            if isinstance(event, ev.TrialPaused):
                saved[event.trial] = max(saved[event.trial], goals[event.trial] if not faults.crash else 0)
            for command in commands:
                if isinstance(command, do.Train):
                    assert command.until_iteration >= goals.get(command.trial, 0)
                    assert command.after_iteration >= saved[command.trial]
                    goals[command.trial] = command.until_iteration
        assert max(goals.values()) == 9

    def test_a_promotion_at_a_higher_rung_comes_first(self) -> None:
        run = checked_run(
            asha(cluster={"slots_per_node": 1, "nodes": 1, "price_per_hour": 36.0}, search__trials=30)
        )
        trains = [c.until_iteration for _, c in run.commands if isinstance(c, do.Train)]
        assert trains[:5] == [1, 1, 1, 3, 1]
        first_top = trains.index(9)
        assert trains[:first_top].count(3) == 3, "as soon as three have reached the second rung"

    def test_a_trial_that_failed_is_not_promoted_and_counts_for_nothing(self) -> None:
        def breaks(config: Mapping[str, float], iteration: int) -> float:
            return math.nan if config["x"] > 0.7 else config["x"]

        job = Job.from_dict({**asha(search__trials=20).to_dict(), "trainable": breaks})
        run = checked_run(job)
        assert run.state.ended is Ending.COMPLETE
        promoted = {c.trial for _, c in run.commands if isinstance(c, do.Train) and c.until_iteration > 1}
        assert promoted
        assert all(x_of(run, trial) <= 0.7 for trial in promoted)


class TestCluster:
    def nodes(self, run: CheckedRun) -> list[tuple[float, int]]:
        held, steps = 0, []
        for event, commands in run.told:
            before = held
            held += len(event.nodes) if isinstance(event, ev.NodesGranted) else 0
            held -= sum(len(c.nodes) for c in commands if isinstance(c, do.ReleaseNodes))
            if held != before:
                steps.append((event.at_s, held))
        return steps

    def test_an_elastic_cluster_shrinks_in_the_tail(self) -> None:
        run = checked_run(asha(search__trials=24, cluster__max_nodes=4))
        sizes = [held for _, held in self.nodes(run)]
        assert sizes[0] == 4
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) >= 3
        assert sizes[-1] == 0

    def test_a_fixed_cluster_stays_whole_until_the_end(self) -> None:
        run = checked_run(asha(search__trials=24, cluster__max_nodes=None, cluster__nodes=4))
        assert self.nodes(run) == [(5.0, 4), (run.seconds, 0)]

    def test_it_asks_for_no_more_nodes_than_its_trials_need(self) -> None:
        run = checked_run(asha(search__trials=3))
        assert self.nodes(run)[0][1] == 2

    def test_gangs_larger_than_a_node_get_whole_nodes(self) -> None:
        run = checked_run(asha(search__min_slots_per_trial=3, cluster__max_nodes=5, search__trials=4))
        assert self.nodes(run)[0][1] == 4
        assert {len(c.gang) for _, c in run.commands if isinstance(c, do.Train)} == {3}


class TestItsEnd:
    def test_without_a_number_of_trials_it_goes_on_to_the_deadline(self) -> None:
        run = checked_run(asha(search__trials=None, deadline=300.0))
        assert run.state.ended is Ending.DEADLINE
        assert 270.0 < run.seconds <= 300.0
        assert len(run.state.trials) > 40

    def test_without_a_number_of_trials_it_goes_on_while_there_is_money(self) -> None:
        run = checked_run(asha(search__trials=None, budget=6.0, cluster__minimum_charge=0.0))
        assert run.state.ended is Ending.BUDGET
        assert 5.0 < run.usd <= 6.0

    def test_it_ends_when_the_table_is_exhausted(self) -> None:
        values = [round(0.1 * n, 1) for n in range(1, 8)]
        run = checked_run(asha(search__trials=None, space={"x": {"choice": values}}, search__sampler="grid"))
        assert run.state.ended is Ending.COMPLETE
        assert len(run.state.trials) == 7

    def test_all_who_deserve_a_promotion_have_had_it_in_the_end(self) -> None:
        run = checked_run(asha(search__trials=27))
        reached = sorted((trial.iteration for trial in run.state.trials.values()), reverse=True)
        assert reached.count(9) >= 3
        assert sum(iteration >= 3 for iteration in reached) >= 9


def test_it_needs_to_know_how_far_to_train() -> None:
    with pytest.raises(JobError, match=r"search\.max_iterations is missing; asha needs the total iterations"):
        search_for("asha", SeerSearch(), {"max_iterations": None})
    assert search_for("asha", SeerSearch(), {"max_iterations": 9}) == AshaSearch.model_validate(
        {"max_iterations": 9, "eta": 4}
    )


def test_options_that_do_not_go_with_another_algorithm_are_named() -> None:
    search = PluginSearch.model_validate({"algorithm": "roulette", "max_iterations": 0, "trials": 3})
    with pytest.raises(JobError, match=r"search\.max_iterations is 0; asha needs a whole number from 1"):
        search_for("asha", search, {})
    search = PluginSearch.model_validate({"algorithm": "roulette", "max_iterations": 3, "min_iterations": 9})
    with pytest.raises(
        JobError, match=r"search\.max_iterations is 3, less than min_iterations \(9\), and asha"
    ):
        search_for("asha", search, {})


def test_a_policy_that_is_not_known_is_said_to_be_so() -> None:
    setup = PolicySetup(options=None, search={}, quote=None, planner=lambda *_: None, seed=0)
    with pytest.raises(JobError, match=r"policy is 'ashra'.*asha.*rubberband"):
        make_policy("ashra", setup)


def test_rubberband_needs_a_plan() -> None:
    with pytest.raises(JobError):
        prepare(asha(search__trials=None, deadline=100.0), "rubberband")


def test_when_nobody_comes_any_more_the_best_is_trained_to_the_end() -> None:
    """8 trials by thirds are 8, 2 and none."""
    run = checked_run(
        job_of(search={"algorithm": "asha", "trials": 8, "max_iterations": 27, "eta": 3}), seed=1
    )
    trained = sorted(trial.iteration for trial in run.state.trials.values())
    assert trained[-1] == 27
    assert trained[:6] == [1] * 6
    assert run.state.best is not None
    assert run.state.best.iteration == 27
