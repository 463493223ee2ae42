"""The policy benchmark on tiny settings: it runs, and what it says has the shape that it should have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.policies import allocation, entrance, profiling, sensitivity, speculative
from benchmarks.policies.ablation import Case, measure
from benchmarks.policies.averages import average, difference
from benchmarks.policies.contestants import CONTESTANTS, Jobs, Setting
from benchmarks.policies.curves import DATA, CurveSet, load_all, made_up
from benchmarks.policies.scaling import Law, load_laws
from benchmarks.policies.simulating import Effort, simulate
from benchmarks.policies.study import EVERYWHERE, Part
from benchmarks.policies.tables import LAST_ROUND, Field
from benchmarks.policies.tables import measure as measure_tables
from benchmarks.policies.tables_report import report
from benchmarks.reporting import silently

TWO = Effort(seeds=2)
LAW = Law(name="made up", speedup={1: 1.0, 2: 1.8, 4: 3.2})

needs_data = pytest.mark.skipif(
    not (DATA / "curves").is_dir(), reason=f"{DATA} is absent: the measurements are not part of the project"
)


@pytest.fixture
def curves(tmp_path: Path) -> CurveSet:
    return made_up(tmp_path)


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


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda contestant: contestant.name)
def test_no_policy_spends_more_or_finds_more_than_there_is(contestant, curves: CurveSet) -> None:  # type: ignore[no-untyped-def]
    setting = Setting(table=curves.name, law=LAW.name, deadline_min=8, slots=8)
    best = curves.clairvoyant(setting.deadline_s, LAW.best(setting.slots))
    for outcome in simulate(Jobs().of(contestant, setting, curves, LAW), range(2)):
        assert outcome.seconds <= setting.deadline_s * (1 + 1e-9)
        assert outcome.usd <= setting.budget_usd * (1 + 1e-9)
        assert curves.regret(outcome.best, best) >= 0.0


def test_processes_change_nothing(curves: CurveSet) -> None:
    cases = profiling.cases(startups_s=(0.5,))
    assert measure(cases, TWO, silently).runs == measure(cases, Effort(seeds=2, processes=2), silently).runs


def test_the_study_has_tables_and_figures(curves: CurveSet, tmp_path: Path) -> None:
    field = Field(tables=[curves], laws=[LAW], deadlines_min=(8,), slots=(4, 8))
    study = measure_tables(field, Effort(seeds=1))
    assert LAST_ROUND in study.names
    assert study.regret("seer", EVERYWHERE) == study.regret("seer", Part(tables=[curves.name]))
    files = report(study).write(tmp_path / "results")
    assert {file.suffix for file in files} == {".csv", ".md", ".png"}


def test_the_clairvoyant_has_the_best_value_that_can_be_reached_by_the_deadline(curves: CurveSet) -> None:
    assert curves.clairvoyant(60.0, 1.0) == np.min(curves.losses[:, 0])
    assert curves.clairvoyant(60.0, 3.2) == np.min(curves.losses[:, :3])
    assert curves.regret(None, curves.clairvoyant(3600.0, 1.0)) == pytest.approx(100.0)


def test_luck_that_both_had_cancels_out_of_a_difference() -> None:
    assert difference([3.0, 8.0], [2.0, 7.0]).se == 0.0
    assert average([1.0, 3.0]).mean == 2.0
    assert average([1.0, 3.0]).se == pytest.approx(1.0)


@needs_data
def test_the_measured_speed_ups_never_fall_and_are_less_than_linear() -> None:
    for law in load_laws():
        speeds = list(law.speedup.values())
        assert speeds == sorted(speeds)
        assert all(speed <= slots for slots, speed in law.speedup.items())


@needs_data
def test_there_are_13_tables_and_all_have_a_range(tmp_path: Path) -> None:
    tables = load_all(tmp_path)
    assert len(tables) == 13
    assert all(0.1 < table.span < 2.0 for table in tables)
