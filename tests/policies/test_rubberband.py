"""RubberBand's executor: what was planned is what runs, and what happens when it cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.trials import Phase
from elastune.errors import InfeasibleError
from elastune.job.job import Job, load_job
from elastune.model.ids import NodeId
from elastune.model.limits import Limit
from elastune.planning.prediction.plan import StagePlan, kept_stages
from elastune.planning.quote import BracketQuote
from elastune.policies.rubberband import RubberBand
from elastune.providers.simulated_faults import NodeFaults
from elastune.runtime.simulated.cloud import Faults
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import SAMPLES, CheckedRun, checked_run, job_of, learn, run_quickly

EXAMPLES = Path(__file__).parents[2] / "examples"


def resnet(**changes: object) -> Job:
    """The example with every latency constant, and something to train."""
    data = load_job(EXAMPLES / "resnet101.yaml").to_dict()
    profile = data["profile"]
    assert isinstance(profile, dict)
    profile |= {"iteration": 105.0, "spread": 0.0}
    return Job.from_dict(
        {**data, "trainable": learn, "metric": "score", "space": {"x": {"float": [0, 1]}}, **changes}
    )


HYPERBAND = {
    "search": {"algorithm": "hyperband", "max_iterations": 9},
    "cluster__max_nodes": 16,
}
CERTAIN = {
    "resnet101": resnet(),
    "resnet101 in a hurry": resnet(deadline="14m"),
    "sha": job_of(),
    "a deadline": job_of(deadline=90.0),
    "many stages": job_of(search={"algorithm": "sha", "trials": 16, "max_iterations": 31, "eta": 2}),
    "an eta between whole numbers": job_of(
        search={"algorithm": "sha", "trials": 16, "max_iterations": 31, "eta": 2.5}
    ),
    "declared stages": job_of(
        search={
            "algorithm": "stages",
            "stages": [
                {"trials": 7, "iterations": 2},
                {"trials": 7, "iterations": 1},
                {"trials": 3, "iterations": 4},
                {"trials": 2, "iterations": 1},
            ],
        }
    ),
    "one stage": job_of(search={"algorithm": "sha", "trials": 5, "max_iterations": 1}),
    "one trial": job_of(search__trials=1),
    "queue mode": job_of(cluster__max_nodes=1),
    "queue mode with gangs": job_of(cluster__max_nodes=1, search__min_slots_per_trial=2),
    "gangs larger than a node": job_of(search__min_slots_per_trial=4),
    "gangs that leave slots unused": job_of(search__min_slots_per_trial=3),
    "per function": job_of(cluster__billing="function"),
    "per function in a hurry": job_of(cluster__billing="function", deadline=90.0),
    "a long minimum charge": job_of(cluster__minimum_charge=600.0),
    "no minimum charge": job_of(cluster__minimum_charge=0.0),
    "a budget": job_of(budget=4.0, cluster__minimum_charge=0.0),
    "data to load": job_of(cluster__data_gb=5, cluster__data_price_per_gb=0.02),
    "barriers that take time": job_of(profile__sync=4.0),
    "checkpoints that travel": job_of(profile__checkpoint=3.0),
    "a fixed cluster": job_of(cluster__max_nodes=None, cluster__nodes=3),
    "hyperband": job_of(**HYPERBAND),
    "hyperband in a hurry": job_of(**HYPERBAND, deadline=120.0),
    "hyperband per function": job_of(**HYPERBAND, cluster__billing="function"),
    "hyperband with a long minimum charge": job_of(**HYPERBAND, cluster__minimum_charge=600.0),
    "hyperband on few nodes": job_of(**{**HYPERBAND, "cluster__max_nodes": 3}),
}


def without_moves(run: CheckedRun, bracket: BracketQuote) -> list[StagePlan]:
    """The stages of a plan before which no gang moves."""
    workload = run.quote.problem.workloads()[run.quote.brackets.index(bracket)]
    kept = zip(kept_stages(workload, bracket.plan), bracket.plan.stages, strict=True)
    return [planned for stays, planned in kept if stays]


class TestTheirPlan:
    @pytest.mark.parametrize("job", CERTAIN.values(), ids=list(CERTAIN))
    def test_a_run_without_surprises_takes_and_costs_what_was_planned(self, job: Job) -> None:
        """Or less, as far as the plan counts start-ups of gangs that stay."""
        run = checked_run(job)
        assert run.state.ended is Ending.COMPLETE
        profile, cluster = run.setup.terms.profile, run.setup.terms.cluster
        stages = [planned for bracket in run.quote.brackets for planned in without_moves(run, bracket)]
        startup_s = profile.startup.mean + profile.transfer_s
        spared_usd = sum(planned.nodes_held * startup_s * cluster.node_usd_per_s for planned in stages)
        least_s, least_usd = run.quote.jct_seconds - len(stages) * startup_s, run.quote.cost - spared_usd
        assert 0.99 * least_s <= run.seconds <= 1.01 * run.quote.jct_seconds
        assert 0.99 * least_usd <= run.usd <= 1.01 * run.quote.cost
        assert run.notes("replan") == []

    @pytest.mark.parametrize("name", ["sha", "many stages", "a deadline", "per function"])
    def test_every_stage_takes_and_costs_what_was_planned(self, name: str) -> None:
        run = checked_run(CERTAIN[name])
        planned = run.quote.stages
        held = run.state.ledger.stages
        assert [s.ended_s - s.began_s for s in held if s.ended_s] == pytest.approx(
            [s.seconds for s in planned]
        )
        assert [s.usd for s in held] == pytest.approx([s.cost for s in planned])

    def test_the_best_trials_of_a_declared_stage_go_on(self) -> None:
        run = checked_run(CERTAIN["declared stages"])
        trials = sorted(
            run.state.trials.values(), key=lambda trial: float(str(trial.config["x"])), reverse=True
        )
        assert [len(trial.values) for trial in trials] == [8, 8, 7, 3, 3, 3, 3]
        assert run.state.best is not None
        assert run.state.best.trial == trials[0].number

    def test_another_policy_runs_a_job_with_declared_stages_on_as_many_trials(self) -> None:
        run = checked_run(CERTAIN["declared stages"], policy="asha")
        assert len(run.state.trials) == 7
        assert max(len(trial.values) for trial in run.state.trials.values()) == 8

    def test_noise_is_as_predicted(self) -> None:
        """Forty seeds: means agree within a few standard errors, and the promise holds for nine in ten."""
        setup = prepare(
            job_of(
                profile__iteration={"mean": 10.0, "sd": 3.0},
                profile__spread=0.2,
                profile__startup={"mean": 3.0, "sd": 1.0},
                cluster__init={"distribution": "lognormal", "mean": 10.0, "sd": 4.0},
                cluster__minimum_charge=0.0,
            ),
            samples=4000,
        )
        quote = setup.quote
        assert quote is not None
        states = [run_quickly(setup, seed=seed) for seed in range(1000, 1040)]
        seconds = [state.ended_s or math.inf for state in states]
        usd = [state.ledger.accrued_usd(state.now_s) for state in states]
        for seen, mean, quantile in (
            (seconds, quote.jct_seconds, quote.jct_quantile_seconds),
            (usd, quote.cost, quote.cost_quantile),
        ):
            assert abs(fmean(seen) - mean) < 4 * stdev(seen) / math.sqrt(len(seen))
            assert sum(value <= quantile for value in seen) >= 0.9 * len(seen)

    def test_the_story_of_a_small_search(self) -> None:
        """Four trials on two nodes of two slots; the better two get both slots, the best one keeps them."""
        job = job_of(
            search={"algorithm": "sha", "trials": 4, "max_iterations": 7, "eta": 2},
            space={"x": {"choice": [0.3, 0.1, 0.4, 0.2]}},
            search__sampler="grid",
            cluster={"slots_per_node": 2, "max_nodes": 2, "price_per_hour": 36.0, "minimum_charge": 0.0},
            profile={"iteration": 10.0, "speedup": {"1": 1.0, "2": 2.0}},
            deadline=51.0,
        )
        assert checked_run(job).log() == [
            (0.0, "begins"),
            (0.0, "-> draw [0, 1, 2, 3]"),
            (0.0, "-> ask for 2"),
            (0.0, "drawn [0, 1, 2, 3]"),
            (0.0, "granted n0 n1"),
            (0.0, "ready n0 n1"),
            (0.0, "-> train 0 0..1 on n0:0"),
            (0.0, "-> train 1 0..1 on n0:1"),
            (0.0, "-> train 2 0..1 on n1:0"),
            (0.0, "-> train 3 0..1 on n1:1"),
            *((0.0, f"trial {n} trains") for n in range(4)),
            (10.0, "trial 0 waits, reached 1..1, saved 1"),
            (10.0, "-> pause 0"),
            (10.0, "trial 1 waits, reached 1..1, saved 1"),
            (10.0, "-> pause 1"),
            (10.0, "trial 2 waits, reached 1..1, saved 1"),
            (10.0, "-> pause 2"),
            (10.0, "trial 3 waits, reached 1..1, saved 1"),
            (10.0, "-> pause 3"),
            *((10.0, f"trial {n} is saved") for n in range(4)),
            (10.0, "-> barrier 0 of pool 0"),
            (10.0, "passed stage 0 of pool 0"),
            (10.0, "-> train 2 1..3 on n0:0,1"),
            (10.0, "-> train 0 1..3 on n1:0,1"),
            (10.0, "trial 2 trains"),
            (10.0, "trial 0 trains"),
            (20.0, "trial 2 waits, reached 2..3, saved 2,3"),
            (20.0, "-> save 2"),
            (20.0, "trial 0 waits, reached 2..3"),
            (20.0, "-> save 0"),
            (20.0, "trial 2 is saved and stays"),
            (20.0, "trial 0 is saved and stays"),
            (20.0, "-> barrier 1 of pool 0"),
            (20.0, "passed stage 1 of pool 0"),
            (20.0, "-> stop 0"),
            (20.0, "-> train 2 3..7 on n0:0,1"),
            (20.0, "-> give back n1"),
            (40.0, "trial 2 waits, reached 4..7, saved 4,5,6,7"),
            (40.0, "-> pause 2"),
            (40.0, "trial 2 is saved"),
            (40.0, "-> barrier 2 of pool 0"),
            (40.0, "passed stage 2 of pool 0"),
            (40.0, "-> give back n0"),
            (40.0, "-> end, complete, with 0.407 of trial 2"),
        ]


class TestLimitsAsTightAsThePlan:
    """What was quoted can be given as the limit, to the cent."""

    def test_a_minimum_charge_is_not_money_that_burns(self) -> None:
        run = checked_run(job_of(budget=4.0, profile__iteration={"mean": 10.0, "sd": 3.0}), seed=100)
        assert run.state.best is not None

    def test_hyperband_within_its_budget_needs_no_other_plan(self) -> None:
        search = {"algorithm": "hyperband", "max_iterations": 9}
        cluster = {
            "slots_per_node": 4,
            "max_nodes": 18,
            "price_per_hour": 36.0,
            "billing": "function",
            "init": 20.0,
        }
        job = {
            "search": search,
            "cluster": cluster,
            "profile": {"iteration": 5.0, "startup": 2.0, "save": 1.0},
        }
        free = prepare(job_of(**job), samples=SAMPLES).quote
        assert free is not None
        run = checked_run(job_of(**job, budget=free.cost * 1.01))
        assert run.notes("replan") == []
        assert run.state.ended is Ending.COMPLETE

    @pytest.mark.parametrize(
        ("may_exceed", "deadline", "budget"), [("deadline", 142.0, 3.4), ("budget", 150.0, 2.8)]
    )
    def test_a_limit_that_may_be_exceeded_does_not_end_the_run(
        self, may_exceed: str, deadline: float, budget: float
    ) -> None:
        faults = Faults(nodes=NodeFaults(straggler=1.0, straggler_factor=1.3))
        job = job_of(deadline=deadline, budget=budget, may_exceed=may_exceed, cluster__minimum_charge=0.0)
        assert checked_run(job, faults=faults).state.ended is Ending.COMPLETE


class TestPromotion:
    @pytest.mark.parametrize("mode", ["max", "min"])
    def test_the_best_of_each_stage_go_on(self, mode: str) -> None:
        run = checked_run(job_of(mode=mode))
        by_x = sorted(
            run.state.trials.values(), key=lambda t: float(str(t.config["x"])), reverse=mode == "max"
        )
        assert [trial.iteration for trial in by_x] == [13] + [4] * 2 + [1] * 6
        assert [trial.phase for trial in by_x] == [Phase.FINISHED] + [Phase.STOPPED] * 8

    def test_each_bracket_of_hyperband_promotes_its_own(self) -> None:
        run = checked_run(CERTAIN["hyperband"])
        assert run.quote.problem.specs
        first = 0
        for spec in run.quote.problem.specs:
            trials = [
                run.state.trials[number] for number in list(run.state.trials)[first:][: spec.stages[0].trials]
            ]
            first += len(trials)
            best = max(trials, key=lambda t: float(str(t.config["x"])))
            assert best.iteration == max(trial.iteration for trial in trials) == 9

    def test_a_failed_trial_shrinks_the_stage_and_gangs_keep_their_size(self) -> None:
        def fails(config: Mapping[str, float], iteration: int) -> float:
            if config["x"] > 0.5:
                raise RuntimeError("boom")
            return learn(config, iteration)

        run = checked_run(job_of(fails), seed=1)
        failed = [t for t in run.state.trials.values() if t.phase is Phase.FAILED]
        assert 0 < len(failed) < 9
        left = sorted(
            (t for t in run.state.trials.values() if t not in failed),
            key=lambda t: -float(str(t.config["x"])),
        )
        going = min(3, len(left))
        assert [t.iteration for t in left] == [13] + [4] * (going - 1) + [1] * (len(left) - going)
        planned = {s.slots_per_trial for s in run.quote.stages}
        assert {len(c.gang) for _, c in run.commands if isinstance(c, do.Train)} <= planned

    def test_a_stage_in_which_all_fail_ends_the_run(self) -> None:
        def fails_later(config: Mapping[str, float], iteration: int) -> float:
            return math.nan if iteration > 1 else learn(config, iteration)

        run = checked_run(job_of(fails_later))
        assert run.state.ended is Ending.COMPLETE
        assert run.state.best is not None
        assert run.state.best.iteration == 1

    def test_fewer_configurations_than_trials_are_enough(self) -> None:
        run = checked_run(job_of(space={"x": {"choice": [0.1, 0.3, 0.2, 0.4]}}, search__sampler="grid"))
        assert run.state.ended is Ending.COMPLETE
        assert sorted(trial.iteration for trial in run.state.trials.values()) == [1, 4, 4, 13]


def lose(run: CheckedRun, node: NodeId) -> None:
    provider = run.body.cloud.provider
    provider._end(node, provider._clock())
    provider._unseen = True
    run.body._watch()


def losing(run: CheckedRun, after_s: float) -> None:
    """Let the first node vanish, as soon as it is up and that time has come."""
    run.start()
    while run.step():
        if run.body.now_s >= after_s and "n0" in run.body.cloud.provider.live():
            break
    lose(run, next(iter(run.body.cloud.provider.live())))
    while run.step():
        pass
    run.witness.check_over()


class TestSurprises:
    def test_a_lost_node_leads_to_another_plan_and_the_deadline_is_kept(self) -> None:
        for after_s in (16.0, 30.0, 60.0):
            run = CheckedRun(prepare(job_of(deadline=200.0), samples=SAMPLES))
            losing(run, after_s)
            assert run.state.ended is Ending.COMPLETE
            assert run.seconds <= 200.0
            assert run.state.best is not None
            assert run.state.best.iteration == 13

    def test_a_lost_node_is_noted_as_a_reason_to_plan_again(self) -> None:
        run = CheckedRun(prepare(job_of(deadline=120.0), samples=SAMPLES))
        losing(run, 30.0)
        assert [note for note in run.notes("replan") if "nodes are missing" in note]

    def test_losses_at_random_keep_the_deadline_whatever_happens(self) -> None:
        faults = Faults(nodes=NodeFaults(lost_per_hour=20.0))
        setup = prepare(job_of(deadline=200.0), samples=SAMPLES)
        runs = [checked_run(setup.job, setup=setup, seed=seed, faults=faults) for seed in range(8)]
        assert all(run.seconds <= 200.0 for run in runs)
        assert sum(run.state.ended is Ending.COMPLETE for run in runs) >= 4

    def test_a_refusal_leads_to_a_plan_for_what_can_be_had(self) -> None:
        faults = Faults(nodes=NodeFaults(capacity=1))
        run = checked_run(job_of(deadline=180.0, may_exceed="deadline"), faults=faults)
        assert run.quote.peak_nodes == 2
        note = run.notes("replan")[0]
        assert note.startswith("1 of 2 nodes are missing; now nodes 1, 1, 1, ")
        assert run.state.ended is Ending.COMPLETE
        alone = prepare(job_of(cluster__max_nodes=1), samples=SAMPLES).quote
        assert alone is not None
        assert run.seconds == pytest.approx(alone.jct_seconds)

    def test_a_straggler_is_noticed_by_the_clock(self) -> None:
        faults = Faults(nodes=NodeFaults(straggler=1.0, straggler_factor=2.0))
        run = checked_run(job_of(deadline=160.0), faults=faults)
        assert "stage 1 takes longer than planned" in run.notes("replan")[0]
        assert run.state.best is not None


def test_with_new_limits_after_a_rest_it_plans_again() -> None:
    """Less time than before needs more nodes; nothing else has happened."""
    run = CheckedRun(prepare(job_of(deadline=200.0), samples=SAMPLES))
    run.start()
    while run.step() and run.body.now_s < 30.0:
        pass
    state = run.state
    before = state.wishes.nodes[0]
    commands = run.core.handle(ev.Resumed(at_s=state.now_s, down_s=60.0, deadline_s=100.0))
    notes = [c.text for c in commands if isinstance(c, do.Note) and c.topic == "replan"]
    assert notes
    assert notes[0].startswith("the limits are new; now nodes ")
    assert state.wishes.nodes[0] > before


class TestLearning:
    """All nodes are slower than was measured; after the first stage that is known."""

    @pytest.mark.parametrize("slowness", [1.2, 1.5])
    def test_the_rest_is_planned_for_the_speed_that_was_seen(self, slowness: float) -> None:
        faults = Faults(nodes=NodeFaults(straggler=1.0, straggler_factor=slowness))
        run = checked_run(job_of(deadline=160.0), faults=faults)
        assert run.notes("replan")[0].startswith(f"iterations take {slowness - 1:.0%} more time than planned")
        assert len(run.notes("replan")) == 1  # the second plan holds
        assert run.state.ended is Ending.COMPLETE

    def test_what_costs_nothing_is_planned_again_without_dollars(self) -> None:
        faults = Faults(nodes=NodeFaults(straggler=1.0, straggler_factor=1.5))
        free = job_of(deadline=160.0, cluster__price_per_hour=0.0, cluster__nodes=2, cluster__max_nodes=None)
        notes = checked_run(free, faults=faults).notes("replan")
        assert notes[0].endswith(" to go")
        assert "$" not in notes[0]

    def test_luck_is_no_reason_to_plan_again(self) -> None:
        job = job_of(deadline=400.0, profile__spread=0.4, search__trials=4)
        setup = prepare(job, samples=SAMPLES)
        runs = [checked_run(job, setup=setup, seed=seed) for seed in range(20)]
        surprised = [run for run in runs if any("time than planned;" in note for note in run.notes("replan"))]
        assert len(surprised) <= 1

    @pytest.mark.parametrize(("spread", "planned_again"), [(0.01, False), (0.4, True)])
    def test_trials_that_hardly_differ_in_speed_are_not_planned_again(
        self, spread: float, planned_again: bool
    ) -> None:
        run = checked_run(job_of(deadline=400.0, profile__spread=spread))
        assert run.state.ended is Ending.COMPLETE
        assert isinstance(run.core.policy, RubberBand)
        assert (run.core.policy.brackets[0].quote != run.quote) is planned_again


class TestWhichLimitMayBeExceeded:
    """All nodes are slower than was measured, which no plan knew."""

    def run(self, deadline: float, budget: float, slowness: float, may_exceed: str | None) -> CheckedRun:
        job = job_of(deadline=deadline, budget=budget, may_exceed=may_exceed, cluster__minimum_charge=0.0)
        return checked_run(job, faults=Faults(nodes=NodeFaults(straggler=1.0, straggler_factor=slowness)))

    def test_a_deadline_that_may_be_exceeded_is_missed_within_the_budget(self) -> None:
        run = self.run(142.0, 3.0, 1.5, "deadline")
        assert run.state.ended is Ending.COMPLETE
        assert run.state.conceded == {Limit.DEADLINE}
        assert run.seconds > 142.0
        assert run.usd <= 3.0

    def test_a_budget_that_may_be_exceeded_is_exceeded_within_the_deadline(self) -> None:
        run = self.run(145.0, 2.4, 1.2, "budget")
        assert run.state.ended is Ending.COMPLETE
        assert run.state.conceded == {Limit.BUDGET}
        assert run.usd > 2.4
        assert run.seconds <= 145.0

    @pytest.mark.parametrize(
        ("deadline", "budget", "slowness", "ending"),
        [(142.0, 3.0, 1.5, Ending.DEADLINE), (142.0, 2.4, 1.5, Ending.BUDGET)],
    )
    def test_with_neither_both_are_kept_and_the_best_so_far_is_returned(
        self, deadline: float, budget: float, slowness: float, ending: Ending
    ) -> None:
        run = self.run(deadline, budget, slowness, None)
        assert run.state.ended is ending
        assert run.state.conceded == frozenset()
        assert (run.seconds <= deadline, run.usd <= budget) == (True, True)
        assert run.state.best is not None


def test_a_limit_that_no_plan_keeps_is_refused_before_the_run() -> None:
    with pytest.raises(InfeasibleError):
        prepare(job_of(deadline=20.0), samples=SAMPLES)


def test_a_stage_does_not_stand_still_while_more_nodes_boot() -> None:
    """After a loss the gangs that are left go on at their size."""
    run = CheckedRun(
        prepare(job_of(deadline=100.0, cluster__init=30.0, cluster__max_nodes=8), samples=SAMPLES)
    )
    losing(run, 45.0)
    at = [event.at_s for event, _ in run.told if isinstance(event, ev.NodeLost)]
    assert len(at) == 1
    revoked = [when for when, c in run.commands if isinstance(c, do.Revoke) and when == at[0]]
    assert revoked == []
