"""The comparison on recorded curves: fair to all, resumable, and its statistics are what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from benchmarks.policies.contestants import (
    CONTESTANTS,
    AnyContestant,
    Contestant,
    Jobs,
    contestants_named,
    why_not,
)
from benchmarks.policies.contestants import OutsideContestant as Outside
from benchmarks.policies.curves import (
    DATA,
    CurveSet,
    held_out_tables,
    load_tables,
    made_up,
    real_tables,
    surrogate_tables,
)
from benchmarks.policies.evidence import Evidence, bootstrap
from benchmarks.policies.outside import PEERS, play, race
from benchmarks.policies.page import filled, renamed
from benchmarks.policies.results import Key, Result, ResultFiles
from benchmarks.policies.scaling import Law, load_laws
from benchmarks.policies.settings import Setting, Terms, all_cells
from benchmarks.policies.simulating import Effort, simulate
from benchmarks.policies.tables import Field, measure
from benchmarks.policies.tables_report import report
from benchmarks.reporting import silently
from elastune.core import events
from elastune.core.events import AnyEvent, Row
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.wishes import Advice
from elastune.curves.npz import read_npz
from elastune.curves.source import CurveFile
from elastune.curves.table import CurveTable
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare
from elastune.space.given_configurations import TableSampler
from tests.thoroughness import most_telling

LAW = Law(name="made up", speedup={1: 1.0, 2: 1.8, 4: 3.2})
TAKING_PART = [each for each in CONTESTANTS if why_not(each) is None and not each.is_slow]
OWN = [each for each in TAKING_PART if isinstance(each, Contestant)]
OUTSIDE = [each for each in TAKING_PART if isinstance(each, Outside)]

needs_data = pytest.mark.skipif(
    not (DATA / "curves").is_dir(), reason=f"{DATA} is absent: the measurements are not part of the project"
)


@pytest.fixture
def curves(tmp_path: Path) -> CurveSet:
    return made_up(tmp_path)


def setting_of(curves: CurveSet, cell: str) -> Setting:
    return Setting(curves=curves, law=LAW, terms=Terms.parse(cell))


def table_of(curves: CurveSet) -> CurveTable:
    return CurveTable.of(read_npz(CurveFile(path=str(curves.path)), curves.metric), source=curves.name)


@most_telling("cell", "1x4+boots", "0.7x8", quick=1)
@pytest.mark.parametrize("contestant", TAKING_PART, ids=lambda each: each.name)
def test_no_contestant_spends_more_or_finds_more_than_there_is(
    contestant: AnyContestant, cell: str, curves: CurveSet
) -> None:
    setting = setting_of(curves, cell)
    outcomes = (
        simulate(Jobs().of(contestant, setting), range(2))
        if isinstance(contestant, Contestant)
        else [play(contestant, setting, seed) for seed in range(2)]
    )
    for outcome in outcomes:
        assert outcome.trials
        assert outcome.seconds <= setting.deadline_s * (1 + 1e-9)
        assert outcome.usd <= setting.budget_usd * (1 + 1e-9)
        assert setting.regret(outcome.best) >= 0.0


class Witness(Policy):
    """Stands before a policy and checks that no value reaches it before its iteration can have ended."""

    def __init__(self, policy: Policy, table: CurveTable, seed: int) -> None:
        self.policy = policy
        self.table = table
        self.seed = seed
        self.earliest_s: dict[tuple[int, int], float] = {}
        """By trial and iteration: the recorded seconds at the speed of its gang, since that gang began."""
        self.rows = 0

    def start(self, state: State) -> Advice:
        return self.policy.start(state)

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        if isinstance(event, events.GangStarted):
            self._begin(event, state)
        if isinstance(event, events.Progressed | events.LeaseEnded | events.TrialCrashed | events.GangLost):
            self.check(event.trial, event.rows, event.at_s)
        for trial in state.trials.values():
            if trial.values:
                assert self.earliest_s[trial.number, len(trial.values)] <= state.now_s + 1e-6
        return self.policy.handle(event, state)

    def _begin(self, event: events.GangStarted, state: State) -> None:
        trial = state.trials[event.trial]
        curve = self.table.curve(trial.config, (self.seed, trial.number))
        seconds = curve.measured or [60.0] * curve.length
        speed = state.terms.profile.speedup.at(len(trial.gang))
        done = len(trial.values)
        ends_s = accumulate((each / speed for each in seconds[done:]), initial=event.at_s)
        next(ends_s)
        for iteration, end_s in enumerate(ends_s, start=done + 1):
            self.earliest_s[trial.number, iteration] = end_s

    def check(self, trial: int, rows: Sequence[Row], now_s: float) -> None:
        for row in rows:
            self.rows += 1
            assert row.at_s <= now_s + 1e-6, f"trial {trial} was shown {row} at {now_s}"
            assert row.at_s >= self.earliest_s[trial, row.iteration] - 1e-6, f"trial {trial}: {row}"


@most_telling("cell", "1x8+boots", "0.7x8", quick=1)
@pytest.mark.parametrize("contestant", OWN, ids=lambda each: each.name)
def test_no_policy_sees_a_value_before_its_iteration_has_ended(
    contestant: Contestant, cell: str, tmp_path: Path
) -> None:
    curves = made_up(tmp_path, uneven=True)
    setup = prepare(Job.from_dict(Jobs().of(contestant, setting_of(curves, cell))))
    simulation = Simulation(setup, seed=3, journal=MemoryJournal(keeps_lines=False), record=unnamed(setup))
    witness = Witness(simulation.core.policy, table_of(curves), seed=3)
    simulation.core.policy = witness
    simulation.run()
    assert witness.rows > 10


def test_the_witness_notices_a_value_that_comes_early(curves: CurveSet) -> None:
    setup = prepare(Job.from_dict(Jobs().of(OWN[0], setting_of(curves, "1x4"))))
    witness = Witness(setup.make_policy(0), table_of(curves), seed=0)
    witness.earliest_s[0, 1] = 60.0
    witness.check(0, [Row(1, 60.0, {"loss": 0.5})], 60.0)
    with pytest.raises(AssertionError, match="trial 0 was shown"):
        witness.check(0, [Row(1, 60.0, {"loss": 0.5})], 59.0)
    with pytest.raises(AssertionError, match="trial 0: Row"):
        witness.check(0, [Row(1, 59.0, {"loss": 0.5})], 60.0)


class Recorder:
    """A peer that goes through the rows and stops every trial after two iterations."""

    def __init__(self) -> None:
        self.reports: list[tuple[int, int, float]] = []

    def propose(self, trial: int) -> int:
        return trial

    def report(self, trial: int, iteration: int, value: float, *, is_last: bool) -> bool:
        self.reports.append((trial, iteration, value))
        return iteration < 2 and not is_last

    def fail(self, trial: int) -> None:
        raise AssertionError("no curve diverges")


def test_workers_of_other_libraries_take_the_recorded_time(curves: CurveSet) -> None:
    setting, peer = setting_of(curves, "0.25x4"), Recorder()
    outcome = race(peer, table_of(curves), setting, seed=0)
    # 3 minutes: four trials of two iterations, then four of one.
    assert [(trial, iteration) for trial, iteration, _ in peer.reports] == [
        *((trial, 1) for trial in range(4)),
        *((trial, 2) for trial in range(4)),
        *((trial, 1) for trial in range(4, 8)),
    ]
    assert outcome.best == min(value for _, _, value in peer.reports)
    assert outcome.usd == pytest.approx(setting.budget_usd)
    with_boots = race(Recorder(), table_of(curves), setting_of(curves, "0.25x4+boots"), seed=0)
    assert with_boots.iterations == 4


@pytest.mark.parametrize("contestant", OUTSIDE, ids=lambda each: each.name)
def test_other_libraries_repeat_themselves_and_stop_bad_trials(contestant: Outside, curves: CurveSet) -> None:
    setting = setting_of(curves, "2x4")
    first = play(contestant, setting, 7)
    assert first == play(contestant, setting, 7)
    assert first != play(contestant, setting, 8)
    assert first.trials > setting.terms.slots * 2


@pytest.mark.parametrize("contestant", OUTSIDE, ids=lambda each: each.name)
def test_other_libraries_begin_with_the_rows_of_all_others(contestant: Outside, curves: CurveSet) -> None:
    table = table_of(curves)
    peer, order = (
        PEERS[contestant.library](table.table, setting_of(curves, "1x4"), 5),
        TableSampler(table.table, seed=5),
    )
    assert [table.table[peer.propose(trial)] for trial in range(4)] == [
        order.ask(trial) for trial in range(4)
    ]


def test_a_contestant_that_is_not_registered_is_skipped_with_a_reason(
    curves: CurveSet, tmp_path: Path
) -> None:
    strange = Contestant(name="strange", group=CONTESTANTS[0].group, algorithm="stranger")
    wrong = Contestant(name="wrong", group=CONTESTANTS[0].group, algorithm="asha", options={"colour": "red"})
    assert why_not(strange) == "no policy 'stranger' is registered"
    assert "colour" in (why_not(wrong) or "")
    with pytest.raises(ValueError, match="no contestant nought"):
        contestants_named(["asha", "nought"])


def test_a_campaign_goes_on_where_it_was_stopped(curves: CurveSet, tmp_path: Path) -> None:
    files = ResultFiles(tmp_path / "runs")
    field = Field(
        tables=[curves], laws=[LAW], cells=[Terms.parse("0.7x8")], contestants=contestants_named(["asha"])
    )
    measure(field, Effort(seeds=2), files)
    first = list(files.read(["asha"]))
    (path,) = (tmp_path / "runs").iterdir()
    path.write_text(path.read_text().rstrip()[:-20])  # stopped while it wrote
    assert list(files.read(["asha"])) == first[:1]
    measure(field, Effort(seeds=3), files)
    again = {each.seed: each for each in files.read(["asha"])}
    assert sorted(again) == [0, 1, 2]
    assert again[0] == first[0]
    assert again[1].regret == first[1].regret
    assert len(path.read_text().splitlines()) == 4  # the broken one and three others


def test_constants_of_an_ablation_change_the_run(curves: CurveSet, tmp_path: Path) -> None:
    files, names = ResultFiles(tmp_path / "runs"), ["forecast", "forecast, even spending"]
    contestants = contestants_named(names)
    field = Field(tables=[curves], laws=[LAW], cells=[Terms.parse("0.7x8")], contestants=contestants)
    measure(field, Effort(seeds=1), files)
    usual, even = files.read(names)
    assert even.trials < usual.trials  # less money for new ones


def test_the_comparison_has_tables_and_figures(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path / "runs")
    names = ["asha", "seer", "seer, elimination: bracket", "random"]
    field = Field(
        tables=[made_up(tmp_path), made_up(tmp_path, uneven=True, name="uneven")],
        laws=[LAW],
        cells=[Terms.parse(cell) for cell in ("0.5x4", "0.5x8", "1x4")],
        contestants=contestants_named(names),
    )
    measure(field, Effort(seeds=2), files)
    made = report(Evidence.of(files.read(names)))
    assert {each.name for each in made.tables} >= {"tables", "tables-leads", "tables-variants"}
    written = made.write(tmp_path / "results")
    assert {file.suffix for file in written} == {".csv", ".md", ".png"}
    tables = {each.name: each for each in made.tables}
    page = "a\n<!-- measured: tables-cells -->\nold\n<!-- end of measured -->\nb <!-- measured: x -->\n"
    text = filled(page, tables)
    assert "old" not in text
    assert "| seer |" in text
    assert text == filled(text, tables)


def test_a_factor_that_is_varied_alone_is_not_mixed_with_others() -> None:
    """Regret by law: in the cells that all laws have; by cell: with the law that has the most."""
    settings = [("bert", "1x4", 10.0), ("bert", "1x16", 20.0), ("imagenet", "1x4", 30.0)]
    runs = [
        result(name, "a", seed, regret, law=law, cell=cell)
        for name in ("asha", "seer")
        for seed in range(2)
        for law, cell, regret in settings
    ]
    rows = {
        each.name: dict(zip(each.header, each.rows[0], strict=True))
        for each in report(Evidence.of(runs)).tables
    }
    assert rows["tables-laws"] | {"policy": ""} == {"policy": "", "bert": "10.0", "imagenet": "30.0"}
    assert rows["tables-cells"] | {"policy": ""} == {"policy": "", "1x4": "10.0", "1x16": "20.0"}


def result(
    contestant: str, table: str, seed: int, regret: float, *, law: str = "bert", cell: str = "1x4"
) -> Result:
    return Result(
        contestant=contestant, table=table, law=law, cell=cell, seed=seed, regret=regret,
        last_regret=None, best=0.0, best_iterations=1, trials=1, iterations=1, time_share=1.0,
        budget_share=1.0, cpu_s=0.0, code="",
    )  # fmt: skip


def test_only_runs_that_all_have_are_compared() -> None:
    runs = [result("a", "t", seed, 10.0 + seed) for seed in range(4)]
    runs += [result("b", "t", seed, 20.0) for seed in range(3)]
    runs += [result("c", "t", 0, 0.0)]
    evidence = Evidence.of(runs)
    assert set(evidence.runs) == {"a", "b"}
    assert evidence.left_out == {"c": 1}
    assert evidence.keys == [Key("t", "bert", "1x4", seed) for seed in range(3)]
    assert evidence.regret("a", ["t"]).mean == pytest.approx(11.0)
    assert evidence.regret("a", ["t"]).se == pytest.approx(1.0 / np.sqrt(3))
    assert evidence.rank("a", ["a", "b"], ["t"]) == 1.0


def test_cells_count_the_same_however_many_seeds_they_have() -> None:
    runs = [result("a", "t", seed, 10.0, cell="1x4") for seed in range(6)]
    runs += [result("a", "t", seed, 30.0 + 2 * seed, cell="1x64") for seed in range(2)]
    evidence = Evidence.of(runs)
    assert evidence.regret("a", ["t"]).mean == pytest.approx(20.5)
    assert evidence.regret("a", ["t"]).se == pytest.approx(0.5)  # half of that of the second cell
    (note,) = (each.note for each in report(evidence).tables if each.name == "tables")
    assert "6 seeds in 1x4; 2 seeds in 1x64, the same for all; 8 runs each" in note


def test_a_second_comparison_has_sections_of_its_own() -> None:
    evidence = Evidence.of([result("a", "t", 0, 10.0), result("b", "t", 0, 20.0)])
    found = renamed(lambda track: report(evidence), "outside")(silently)
    assert {each.name for each in found.tables} >= {"outside", "outside-leads", "outside-cells"}
    assert set(found.figures) == {"outside", "outside-budgets"}


def test_seeds_that_lack_a_table_are_left_out() -> None:
    runs = [result("a", table, seed, 1.0) for table in ("t", "u") for seed in range(2)]
    runs += [result("a", "t", 2, 1.0), result("a", "AlexNet", 0, 1.0)]
    evidence = Evidence.of(runs)
    assert [(key.table, key.seed) for key in evidence.keys] == [
        ("AlexNet", 0), ("t", 0), ("t", 1), ("u", 0), ("u", 1),
    ]  # fmt: skip
    assert (evidence.held_out, evidence.development) == (["t", "u"], ["AlexNet"])


def test_a_lead_is_paired_and_its_interval_is_over_tables() -> None:
    gains = {"t": 2.0, "u": 4.0, "v": -1.0}
    runs = []
    for seed in range(2):
        for place, (table, gain) in enumerate(gains.items()):
            luck = 30.0 * seed + 100.0 * place
            runs += [result("a", table, seed, luck), result("b", table, seed, luck + gain)]
    lead = Evidence.of(runs).lead("a", "b", list(gains))
    assert lead.by.mean == pytest.approx(5.0 / 3.0)
    assert lead.by.se == pytest.approx(0.0)
    assert (lead.better, lead.tables, lead.worst_table) == (2, 3, "v")
    assert lead.worst == pytest.approx(-1.0)
    assert lead.by.low == pytest.approx(-1.0)
    assert not lead.by.excludes_0


def test_the_bootstrapped_interval_is_about_that_of_a_normal_mean() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, 400)
    low, high = bootstrap(values)
    assert (high - low) / 2 == pytest.approx(1.96 * 2.0 / 20.0, rel=0.1)


def test_the_clairvoyant_has_the_best_value_that_can_be_reached_by_the_deadline(curves: CurveSet) -> None:
    assert curves.clairvoyant(60.0, 1.0) == np.min(curves.losses[:, 0])
    assert curves.clairvoyant(60.0, 3.2) == np.min(curves.losses[:, :3])
    assert curves.regret(None, curves.clairvoyant(3600.0, 1.0)) == pytest.approx(100.0)


def test_a_cell_is_read_as_it_is_written() -> None:
    cells = [*all_cells(), *all_cells(boots=True)]
    assert len(set(cells)) == 18
    assert [Terms.parse(str(cell)) for cell in cells] == cells
    with pytest.raises(ValueError, match="expected trainings x slots"):
        Terms.parse("1x6")


@needs_data
def test_the_measured_speed_ups_never_fall_and_are_less_than_linear() -> None:
    for law in load_laws():
        speeds = list(law.speedup.values())
        assert speeds == sorted(speeds)
        assert all(speed <= slots for slots, speed in law.speedup.items())


@needs_data
def test_there_are_20_real_tables_17_of_them_held_out(tmp_path: Path) -> None:
    tables = load_tables([*real_tables(), *surrogate_tables()], tmp_path)
    assert (len(real_tables()), len(held_out_tables()), len(tables)) == (20, 17, 23)
    for table in tables:
        assert table.span > 0.0
        assert table.clairvoyant(0.25 * table.training_s, 1.0) < table.worst
        assert np.nanmean(table.seconds) == pytest.approx(60.0, rel=0.1)
