"""The simulation benchmark on tiny searches, without Syne Tune: it runs, and both parts do what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.simulation import curves, ours, side_by_side, stages
from benchmarks.simulation.measurement import Search

SEARCH = Search(trials=12, max_epochs=9)


def test_without_syne_tune_ours_runs_alone_and_the_note_says_how_to_install_it(tmp_path: Path) -> None:
    table = side_by_side.measure(curves.write_small_table(tmp_path), searches=[SEARCH], repeats=1)
    assert [row[table.header.index("by")] for row in table.rows] == [side_by_side.OURS]
    assert table.note == side_by_side.INSTALL


def test_more_trials_than_configurations_draw_them_with_replacement(tmp_path: Path) -> None:
    path = curves.write_small_table(tmp_path, configurations=5)
    search = Search(trials=12, max_epochs=9, replace=True)
    measured, _ = ours.measure(ours.asha_job(path, search), seed=0)
    assert measured.trials == search.trials


def test_the_search_ends_with_the_journal_on_and_trains_some_trials_further(tmp_path: Path) -> None:
    measured, simulation = ours.measure(ours.asha_job(curves.write_small_table(tmp_path), SEARCH), seed=0)
    assert measured.trials == SEARCH.trials
    assert SEARCH.trials < measured.epochs < SEARCH.trials * SEARCH.max_epochs
    assert simulation.writer.sha256


def test_an_interpreter_without_syne_tune_is_named_in_the_error(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no syne_tune here >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    with pytest.raises(RuntimeError, match="no syne_tune here"):
        side_by_side.measure(
            curves.write_small_table(tmp_path), peer_python=str(broken), searches=[SEARCH], repeats=1
        )


def test_where_the_data_is_absent_the_reason_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "SOURCE", tmp_path / "absent.npz")
    with pytest.raises(curves.NoDataError, match=r"absent\.npz"):
        curves.write_table(tmp_path)


def test_diverged_trainings_become_the_worst_loss(tmp_path: Path) -> None:
    if not curves.SOURCE.is_file():
        pytest.skip(f"{curves.SOURCE} is absent")
    with np.load(curves.SOURCE) as before, np.load(curves.write_table(tmp_path)) as after:
        recorded, losses = before[curves.METRIC][curves.TASK], after[curves.METRIC]
    diverged = np.isnan(recorded)
    assert diverged.any()
    assert np.unique(losses[diverged]).tolist() == [np.nanmax(recorded)]
    assert np.array_equal(losses[~diverged], recorded[~diverged])


def test_the_stages_are_as_many_as_halvings() -> None:
    table = stages.measure(trials=16, repeats=1)
    assert [row[:3] for row in table.rows] == [("constant", 16, 5), ("noisy", 16, 5)]
