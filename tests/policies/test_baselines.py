"""The baselines: each does what its paper says, and nothing cleverer."""

from __future__ import annotations

from collections import Counter

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.trials import Phase
from elastune.errors import InfeasibleError, JobError
from elastune.model.stages import hyperband
from elastune.policies.outline import Outline
from elastune.setup.run_setup import RunSetup, prepare
from tests.runs.checked_run import CheckedRun, checked_run, job_of

PLAIN: dict[str, object] = {
    "profile": {"iteration": 1.0},
    "cluster": {"slots_per_node": 1, "max_nodes": 64, "price_per_hour": 60, "minimum_charge": 0},
}


def trained(run: CheckedRun) -> Counter[int]:
    return Counter(trial.iteration for trial in run.state.trials.values())


class TestHyperband:
    def test_brackets_come_one_after_the_other_with_the_trials_of_the_paper(self) -> None:
        job = job_of(search={"algorithm": "hyperband", "max_iterations": 9, "eta": 3})
        run = checked_run(job, policy="hyperband")
        specs = hyperband(max_iterations=9, eta=3)
        assert len(run.state.trials) == sum(spec.stages[0].trials for spec in specs)
        barriers = [c.stage for _, c in run.commands if isinstance(c, do.Barrier)]
        assert barriers == list(range(sum(len(spec.stages) for spec in specs)))
        assert run.state.ended is Ending.COMPLETE
        assert trained(run)[9] == sum(spec.stages[-1].trials for spec in specs)

    def test_a_limit_makes_it_rubberbands_and_a_name_beside_the_job_its_own(self) -> None:
        job = job_of(search={"algorithm": "hyperband", "max_iterations": 9}, deadline="1h")
        assert prepare(job, samples=16).policy == "rubberband"
        assert prepare(job, "hyperband", samples=16).policy == "hyperband"

    def test_bohb_repeats_until_a_limit_ends_it(self) -> None:
        search = {"algorithm": "bohb", "max_iterations": 3, "repeat": True, "sampler": "random"}
        once = checked_run(job_of(search={**search, "repeat": False}))
        again = checked_run(job_of(search=search, deadline=4 * once.seconds))
        assert len(again.state.trials) > 2 * len(once.state.trials)
        assert again.state.ended is Ending.DEADLINE

    def test_repeating_without_an_end_is_refused(self) -> None:
        with pytest.raises(JobError, match="nothing else ends the search"):
            job_of(search={"algorithm": "bohb", "max_iterations": 3, "repeat": True})

    def test_bohb_learns_from_what_was_seen(self) -> None:
        setup = prepare(job_of(search={"algorithm": "bohb", "max_iterations": 9}), samples=16)
        assert setup.tuning.sampler.kind == "tpe"
        assert prepare(job_of(), "bohb", samples=16).tuning.sampler.kind == "tpe"


PBT = {"algorithm": "pbt", "trials": 8, "interval": 3, "max_iterations": 12}


class TestPbt:
    def test_the_worst_are_replaced_by_forks_of_the_best(self) -> None:
        run = checked_run(job_of(search=PBT), seed=1)
        forks = [c for _, c in run.commands if isinstance(c, do.Fork)]
        assert len(forks) == 3 * 2  # three meetings before the end, a quarter of eight
        trials = run.state.trials
        for fork in forks:
            assert trials[fork.trial].parent == fork.parent
            assert trials[fork.trial].inherited == fork.iteration
            assert trials[fork.trial].values[: fork.iteration] == trials[fork.parent].values[: fork.iteration]
        first = [c.parent for c in forks[:2]]
        x = {n: float(trials[n].config["x"]) for n in range(8)}  # type: ignore[index,arg-type]
        best = sorted(x, key=lambda n: -x[n])
        assert set(first) <= set(best[:2])
        stopped = [n for n in range(8) if trials[n].phase is Phase.STOPPED]  # type: ignore[index]
        assert set(best[-2:]) <= set(stopped)

    def test_a_fork_loads_its_parents_checkpoint_once(self) -> None:
        run = checked_run(job_of(search=PBT), seed=1)
        origins = [c.origin for _, c in run.commands if isinstance(c, do.Train) and c.origin is not None]
        assert len(origins) >= 6
        assert run.state.best is not None
        assert run.state.trials[run.state.best.trial].iteration == 12

    def test_everybody_who_is_left_trains_to_the_end(self) -> None:
        run = checked_run(job_of(search=PBT), seed=2)
        assert trained(run)[12] == 8
        assert run.state.ended is Ending.COMPLETE

    def test_configurations_of_forks_are_near_their_parents(self) -> None:
        run = checked_run(job_of(search=PBT), seed=3)
        near = [
            float(t.config["x"]) / float(run.state.trials[t.parent].config["x"])  # type: ignore[arg-type]
            for t in run.state.trials.values()
            if t.parent is not None
        ]
        assert any(ratio == pytest.approx(1.2) or ratio == pytest.approx(0.8) for ratio in near)

    def test_a_population_of_one_has_nobody_to_copy(self) -> None:
        run = checked_run(job_of(search={**PBT, "trials": 1}))
        assert not [c for _, c in run.commands if isinstance(c, do.Fork)]
        assert run.state.ended is Ending.COMPLETE


class TestFullTraining:
    def test_random_is_one_configuration_on_all_slots_that_the_budget_pays_for(self) -> None:
        """SEER section 6.3."""
        job = job_of(**PLAIN, search={"algorithm": "random"}, deadline="10m", budget=80)
        run = checked_run(job)
        gangs = [c.gang for _, c in run.commands if isinstance(c, do.Train)]
        assert {len(gang) for gang in gangs} == {8}
        assert len(run.state.trials) == 1
        assert run.seconds == pytest.approx(600.0, rel=0.01)

    def test_more_trials_share_the_slots_and_take_turns(self) -> None:
        job = job_of(
            **{**PLAIN, "cluster__max_nodes": 4},
            search={"algorithm": "random", "trials": 10, "max_iterations": 5},
        )
        run = checked_run(job)
        assert trained(run) == {5: 10}
        assert run.seconds == pytest.approx(15.0)  # four, four, two

    def test_grid_trains_every_point_once(self) -> None:
        space = {"x": {"choice": [0.1, 0.5, 0.9]}, "y": {"choice": [1, 2]}}
        run = checked_run(job_of(search={"algorithm": "grid", "max_iterations": 4}, space=space))
        configs = {(t.config["x"], t.config["y"]) for t in run.state.trials.values()}
        assert len(configs) == len(run.state.trials) == 6
        assert run.state.ended is Ending.COMPLETE

    def test_without_an_end_it_needs_one(self) -> None:
        with pytest.raises(JobError, match=r"search\.max_iterations is left out, and nothing else ends"):
            job_of(search={"algorithm": "random"})


def outline_of(setup: RunSetup) -> Outline:
    outline = setup.outline()
    assert outline is not None
    return outline


class TestEGrid:
    def test_half_for_many_half_for_the_best(self) -> None:
        job = job_of(**PLAIN, search={"algorithm": "e-grid"}, deadline="10m", budget=80)
        rounds = outline_of(prepare(job, samples=16)).rounds
        assert [r.seconds for r in rounds] == pytest.approx([300.0, 300.0])
        assert [dict(r.gangs) for r in rounds] == [{1: 12}, {4: 1}]  # (80 - 4 * 5) / 5
        run = checked_run(job, seed=1)
        assert len(run.state.trials) == 12
        assert run.seconds == pytest.approx(600.0, rel=0.01)
        assert run.state.best is not None
        x = {n: float(t.config["x"]) for n, t in run.state.trials.items()}  # type: ignore[arg-type]
        assert x[run.state.best.trial] == max(x.values())

    def test_it_needs_a_deadline(self) -> None:
        with pytest.raises(JobError, match="e-grid needs a deadline"):
            prepare(job_of(**PLAIN, search={"algorithm": "e-grid"}, budget=80), samples=16)


class TestEHyperband:
    def test_brackets_side_by_side_end_together_at_the_deadline(self) -> None:
        job = job_of(
            **PLAIN, search={"algorithm": "e-hyperband", "min_round": "1m"}, deadline="10m", budget=300
        )
        setup = prepare(job, samples=16)
        rounds = outline_of(setup).rounds
        ends = {
            track: sum(r.seconds for r in rounds if r.track == track) for track in {r.track for r in rounds}
        }
        assert max(ends.values()) <= 600.0 * (1 + 1e-9)
        assert max(ends.values()) == pytest.approx(min(ends.values()), rel=1e-6)
        run = checked_run(job, seed=1)
        assert run.usd <= 300.0

    def test_a_fixed_cluster_gets_no_more_trials_than_it_has_slots(self) -> None:
        cluster = {"slots_per_node": 2, "nodes": 4, "price_per_hour": 1}
        search = {"algorithm": "e-hyperband", "min_round": "10s"}
        job = job_of(profile={"iteration": 1.0}, cluster=cluster, search=search, deadline="10m", budget=300)
        setup = prepare(job, samples=16)
        first = [r for r in outline_of(setup).rounds if r.number == 1]
        assert sum(r.slots for r in first) <= 8

    def test_too_little_says_so(self) -> None:
        search = {"algorithm": "e-hyperband", "min_round": "1m"}
        with pytest.raises(InfeasibleError, match="e-hyperband: the limits leave no room"):
            prepare(job_of(**PLAIN, search=search, deadline="50s"), samples=16)


def test_trials_that_failed_are_replaced_in_a_population() -> None:
    def sometimes(config: dict[str, float], iteration: int) -> float:
        return float("nan") if config["x"] < 0.3 else config["x"]

    run = checked_run(job_of(sometimes, search=PBT), seed=1)
    failed = [t for t in run.state.trials.values() if t.phase is Phase.FAILED]
    assert failed
    drawn = [e for e, _ in run.told if isinstance(e, ev.TrialsSampled)]
    assert sum(len(e.trials) for e in drawn) > 8 + len(failed) - 1
