"""The experiments of HyperSched on tiny settings: what they say has the shape that it should have."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.policies import allocation, decisions, entrance, profiling, real, sensitivity, speculative
from benchmarks.policies.ablation import Case, measure
from benchmarks.policies.averages import average, difference
from benchmarks.policies.real import RealResult
from benchmarks.policies.simulating import Effort
from benchmarks.reporting import silently

TWO = Effort(seeds=2)


def test_speculation_helps_most_where_time_is_short() -> None:
    ablation = measure(speculative.cases(atoms=(4,), deadlines_s=(15,)), Effort(seeds=4), silently)
    assert ablation.gain((4, 15), "speculative", "waiting").mean > 0.1


def test_slots_for_the_best_help_where_training_scales_and_else_do_no_harm() -> None:
    ablation = measure(allocation.cases(atoms=(4,)), TWO, silently)
    gains = {
        setting[0]: ablation.gain(setting, "reallocated", "one atom each") for setting in ablation.settings
    }
    assert gains["none"].mean == 0.0
    assert gains["linear"].mean > gains["square root"].mean > 0.0


@pytest.mark.parametrize(
    "cases",
    [
        entrance.cases(atoms=(4,), deadlines_s=(10,), shares=(0.5,)),
        profiling.cases(startups_s=(1.0,)),
        sensitivity.cases(startups_s=(2.0,)),
    ],
    ids=["entrance", "profiling", "sensitivity"],
)
def test_every_ablation_runs(cases: list[Case]) -> None:
    ablation = measure(cases, Effort(seeds=1), silently)
    assert all(ablation.scores(case.setting, case.variant)[0] > 0.0 for case in cases)


def test_every_decision_of_a_run_is_timed() -> None:
    for policy in decisions.POLICIES:
        timing = decisions.measure(policy, 60, repeats=1)
        assert timing.trials >= 4, policy
        assert len(timing.decisions) > timing.trials, policy
        assert 0.0 < max(timing.decisions) < sum(timing.decisions) < timing.seconds, policy


def test_processes_change_nothing() -> None:
    cases = profiling.cases(startups_s=(0.5,))
    assert measure(cases, TWO, silently).runs == measure(cases, Effort(seeds=2, processes=2), silently).runs


def test_real_runs_are_summed_up_by_policy_and_those_in_the_file_are_not_repeated(tmp_path: Path) -> None:
    runs = [
        RealResult(policy=p, seed=s, accuracy=a, usd=0.1, seconds=119, trials=9, iterations=80, load=2.5)
        for p, s, a in (("forecast", 0, 0.98), ("asha", 0, 0.95), ("forecast", 1, 0.96))
    ]
    lines = "".join(json.dumps(dataclasses.asdict(each)) + "\n" for each in runs)
    (tmp_path / "real.jsonl").write_text(lines)
    assert real.measure(silently, seeds=1, policies=("forecast", "asha"), results=tmp_path) == runs[:2]
    forecast, asha = real.summary_table(runs).rows
    assert forecast[:3] == ("forecast", 2, "97.00 ± 1.41")
    assert asha[:3] == ("asha", 1, "95.00")


def test_the_job_of_real_runs_has_a_budget_and_no_pace() -> None:
    job = real.real_job(nodes=2)
    assert job.budget == 0.15
    assert "pace" not in job.to_dict()["space"]  # type: ignore[operator]
    assert [real.job_of(name, job, 3).search.algorithm for name in real.POLICIES] == list(real.POLICIES)


def test_luck_that_both_had_cancels_out_of_a_difference() -> None:
    assert difference([3.0, 8.0], [2.0, 7.0]).se == 0.0
    assert average([1.0, 3.0]).mean == 2.0
    assert average([1.0, 3.0]).se == pytest.approx(1.0)
