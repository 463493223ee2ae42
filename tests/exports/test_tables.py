"""The tables of a run: what they hold, and that files hold the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import elastune
from elastune.api.results import LoadedRun
from elastune.errors import JobError
from elastune.history.trial_tables import table_recorder, trial_line
from elastune.history.trials import RowEntry, without_lost
from elastune.journal.codec import event_of
from elastune.journal.store import Journal
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Simulation, unnamed
from tests.cli.commands import SYNTHETIC
from tests.cli.commands import elastune as elastune_command
from tests.exports.odd_runs import JOB, odd_run
from tests.fire.experiments import make_experiment


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    return odd_run(tmp_path_factory.mktemp("odd"))


def test_a_line_per_trial_tells_how_it_stands_and_what_it_took(odd: LoadedRun) -> None:
    trials = odd.trials()
    assert trials.attrs == {"run": odd.run, "metric": "score", "mode": "max"}
    assert list(trials["trial"]) == list(range(24))
    good, bad = trials[trials["config/name"] == "gut"], trials[trials["config/name"] == "schlecht"]
    assert set(good["status"]) == {"finished"}
    assert set(bad["status"]) == {"failed"}
    assert bad["error"].str.contains("diverged").all()
    assert good["error"].isna().all()
    assert list(good["iterations"].unique()) == [4]
    assert list(bad["iterations"].unique()) == [2]
    assert bad["final"].isna().all()
    assert bad["best"].isna().all()  # never saved
    assert np.allclose(bad["best_reported"], bad["config/x"] + 1)
    assert (good["best"] == good["final"]).all()
    assert np.allclose(good["final"], good["config/x"] + 4)
    assert np.allclose(good["seconds"], good["ended_s"] - good["started_s"])
    assert np.allclose(good["cost"], good["slot_seconds"] * 3.6 / 3600 / 2)
    assert set(good["nodes"]) <= {"n0", "n1"}


def test_hyperparameters_keep_their_types(odd: LoadedRun) -> None:
    trials = odd.trials()
    assert trials["config/flag"].dtype == bool
    assert set(trials["config/mixed"]) == {1, "eins"}
    assert trials["config/depth"].dtype == "Int64"  # though bad trials have none
    assert trials.loc[trials["config/name"] == "schlecht", "config/depth"].isna().all()
    assert set(trials["config/constant"]) == {"käse"}
    assert trials["config/nothing"].isna().all()


def test_a_row_per_iteration_has_every_metric(odd: LoadedRun) -> None:
    rows = odd.rows()
    assert list(rows.columns) == ["trial", "iteration", "at_s", "größe (%)", "inf", "score", "metric/trial"]
    assert len(rows) == 16 * 4 + 8 * 2
    assert rows["at_s"].is_monotonic_increasing
    assert np.isinf(rows["inf"]).all()
    assert rows.loc[rows["iteration"] % 2 == 0, "größe (%)"].isna().all()
    assert not rows.duplicated(["trial", "iteration"]).any()


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_files_that_pandas_reads_hold_the_same(odd: LoadedRun, format_: str, tmp_path: Path) -> None:
    written = odd.export(format_, tmp_path / "there")
    assert [Path(path).name for path in written] == [f"trials.{format_}", f"rows.{format_}"]
    read = pd.read_csv if format_ == "csv" else pd.read_parquet
    trials, rows = (read(path) for path in written)
    pd.testing.assert_frame_equal(rows, odd.rows(), check_dtype=False)
    expected = odd.trials()
    assert list(trials.columns) == list(expected.columns)
    for name in ("status", "iterations", "best", "slot_seconds", "config/x", "config/flag", "config/name"):
        pd.testing.assert_series_equal(trials[name], expected[name], check_dtype=False)
    assert list(trials["config/mixed"]) == [str(value) for value in expected["config/mixed"]]


def test_json_is_json_also_where_numbers_are_not_finite(odd: LoadedRun, tmp_path: Path) -> None:
    trials, rows = (
        json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=pytest.fail)
        for path in odd.export("json", tmp_path)
    )
    assert len(trials) == 24
    assert trials[0]["config/constant"] == "käse"
    assert {row["inf"] for row in rows} == {"inf"}
    assert {row["größe (%)"] for row in rows if row["iteration"] == 3} == {"nan"}


def test_one_table_can_be_asked_for(odd: LoadedRun, tmp_path: Path) -> None:
    assert odd.export("csv", tmp_path, what="rows") == (str(tmp_path / "rows.csv"),)
    assert not (tmp_path / "trials.csv").exists()


def test_files_that_are_there_are_kept_unless_forced(odd: LoadedRun, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("mine")
    with pytest.raises(JobError, match=r"rows\.csv exists already; .* --force"):
        odd.export("csv", tmp_path)
    assert (tmp_path / "rows.csv").read_text() == "mine"
    assert not (tmp_path / "trials.csv").exists()
    odd.export("csv", tmp_path, force=True)
    assert len(pd.read_csv(tmp_path / "rows.csv")) == len(odd.rows())


def test_what_is_not_known_is_refused(odd: LoadedRun, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"format is 'cvs'; expected csv, .* did you mean 'csv'\?"):
        odd.export("cvs", tmp_path)
    with pytest.raises(JobError, match="what is 'all'; expected trials, rows or both"):
        odd.export("csv", tmp_path, what="all")
    with pytest.raises(JobError, match="what is rows, but tensorboard always gets"):
        odd.export("tensorboard", tmp_path, what="rows")
    (tmp_path / "file").write_text("")
    with pytest.raises(JobError, match="is a file; expected a folder"):
        odd.export("csv", tmp_path / "file")
    with pytest.raises(JobError, match="cannot be written"):
        odd.export("csv", tmp_path / "file" / "deeper")


def test_a_run_without_any_row_has_empty_tables(tmp_path: Path) -> None:
    run = odd_run(tmp_path, trainable=_raises)
    assert len(run.rows()) == 0
    assert list(run.rows().columns) == ["trial", "iteration", "at_s"]
    trials = run.trials()
    assert "failed" in set(trials["status"])
    assert trials["best"].isna().all()
    for format_ in ("csv", "json", "parquet", "tensorboard"):
        assert run.export(format_)


def _raises(config: object, iteration: int) -> float:
    raise ValueError("never")


def test_a_run_that_goes_on_or_was_interrupted_can_be_read(tmp_path: Path) -> None:
    """A journal that ends in the middle: the same events, but not all of them."""
    whole = odd_run(tmp_path / "whole")
    source = Journal.open(whole.found.journal, read_only=True)
    cut = Journal.open(tmp_path / "cut.sqlite")
    writer = cut.start(whole.found.record)
    for entry in source.read(whole.found.record.run):
        if entry.number > 60:
            break
        writer.append(entry.number, entry.lines)
    writer.commit()
    running = elastune.load_run(tmp_path / "cut.sqlite")
    assert 0 < len(running.rows()) < len(whole.rows())
    assert set(running.trials()["status"]) & {"running", "starting"}
    has_slots = running.trials()["status"].isin(["running", "starting"])
    assert running.trials().loc[has_slots, "ended_s"].isna().all()
    writer.close()
    pd.testing.assert_frame_equal(running.rows(), whole.rows()[: len(running.rows())], check_exact=True)


def test_the_result_of_a_run_leads_to_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = elastune.simulate_many(SYNTHETIC, folder="elastune-runs").results[0]
    assert result.run is not None
    trials = elastune.load_run(result.run).trials()
    assert len(trials) == result.trials
    assert dict(trials["status"].value_counts()) == dict(result.phases)
    assert result.best is not None
    assert trials["best"].max() == result.best.metric
    assert elastune.load_run(result.run).best == result.best


def peaked(config: Mapping[str, float], iteration: int) -> dict[str, float]:
    """Best in the middle, so that the last value of a trial is not its best."""
    return {"score": config["x"] - (iteration - 3) ** 2, "loss": (iteration - 3) ** 2 - config["x"]}


@pytest.mark.parametrize(
    ("algorithm", "metric", "mode"),
    [
        ("sha", "loss", "min"),
        ("asha", "score", "max"),
        pytest.param("sha", "score", "max", marks=pytest.mark.slow),
        pytest.param("asha", "loss", "min", marks=pytest.mark.slow),
    ],
)
def test_best_is_the_same_wherever_it_is_said(
    algorithm: str, metric: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best value that has a checkpoint: result, `load_run`, tables, files, status, list and report."""
    monkeypatch.chdir(tmp_path)
    search = {"algorithm": algorithm, "trials": 9, "max_iterations": 9}
    changes = {"trainable": peaked, "space": {"x": {"float": [0, 1]}}, "metric": metric, "mode": mode}
    whole = elastune.simulate_many(JOB | changes | {"search": search}, folder="elastune-runs")
    best = whole.results[0].best
    assert best is not None
    run = elastune.load_run("last")
    rows = run.rows()
    own = rows[(rows["trial"] == best.trial) & (rows["iteration"] == best.iterations)]
    assert list(own[metric]) == [best.metric]
    assert best.metric != rows[rows["trial"] == best.trial][metric].iloc[-1], "not the last value"
    assert run.best == best
    assert elastune.status("last").standing.best == best
    assert elastune.list_runs().runs[0].best == best.metric
    shown = json.loads(elastune_command("status", "last", "--json", cwd=tmp_path).stdout)["best"]
    assert shown == best.to_dict()
    written = pd.read_csv(run.export("csv", tmp_path / "files")[0])
    sign = 1 if mode == "max" else -1
    for trials in (run.trials(), written):
        first = trials.sort_values("best", key=lambda values: -sign * values).iloc[0]
        assert (first["trial"], first["best"]) == (best.trial, best.metric)
        assert first["best_iteration"] == best.iterations
        kept = trials.dropna(subset=["best"])
        assert (sign * kept["best"] <= sign * kept["best_reported"]).all()
    page = elastune.report("last").page.read_text(encoding="utf-8")
    assert f"{best.trial} ★" in page


def test_what_was_trained_again_is_there_once_unless_asked_for() -> None:
    def row(trial: int, iteration: int, generation: int) -> RowEntry:
        return RowEntry(trial, iteration, 0.0, {"score": float(generation)}, generation)

    lost = [row(0, 3, 1), row(0, 4, 1)]
    kept = [row(0, 1, 1), row(0, 2, 1)], [row(1, 4, 1), row(0, 3, 2), row(0, 4, 2)]
    assert without_lost([*kept[0], *lost, *kept[1]]) == [*kept[0], *kept[1]]
    late = row(0, 4, 1)  # news of a gang that has a successor
    assert without_lost([row(0, 1, 1), row(0, 2, 2), late]) == [row(0, 1, 1), row(0, 2, 2)]


@pytest.mark.parametrize(
    "seed", [0, 1, 4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 5))]
)
def test_slot_time_is_that_of_the_ledger_and_the_best_that_of_the_core_whatever_goes_wrong(seed: int) -> None:
    """Random jobs under random policies, with lost nodes, crashes and a dying driver."""
    experiment = make_experiment(seed)
    journal = MemoryJournal()
    record = unnamed(experiment.setup)
    Simulation(experiment.setup, seed=seed, journal=journal, record=record, faults=experiment.faults).run()
    core = experiment.setup.make_core(seed)
    recorder = table_recorder(experiment.setup.terms)
    for entry in journal.read(record.run):
        event = event_of(entry)
        recorder.take(event, core.handle(event))
    ledger = core.state.ledger.trials
    lines = []
    for number, trial in core.state.trials.items():
        line = trial_line(recorder, core.state, trial)
        booked = ledger[number].busy_s if number in ledger else 0.0
        assert line.slot_seconds == pytest.approx(booked, abs=1e-6)
        assert line.iterations >= trial.iteration
        lines.append(line)
    best = core.state.best
    saved = [line for line in lines if line.best is not None]
    assert bool(saved) == (best is not None)
    if best is not None:
        own = next(line for line in saved if line.trial == best.trial)
        assert (own.best, own.best_iteration) == (best.metric, best.iteration)
        assert not any(core.state.better(line.best, best.metric) for line in saved if line.best is not None)
