"""Slot processes of a node that share data: one file, loaded once, mapped by all, changed by none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elastune.runtime.ray.messages import Broken, Trained
from tests.runtime.real.slot_processes import Watched, crew_of, form


def first_rows(processes: Watched, *trials: int) -> list[Mapping[str, float]]:
    """Of trials that train at the same time on slots of their own."""
    for slot, trial in enumerate(trials):
        processes.processes.order(slot, form(trial, until=1))
    rows: dict[int, Mapping[str, float]] = {}
    while len(rows) < len(trials):
        news = processes.wait_for(Trained)
        for _, _, metrics in news.rows:
            rows[news.gang.trial] = metrics
    return [rows[trial] for trial in trials]


def test_two_slots_map_one_file_that_one_of_them_has_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    with crew_of("share", tmp_path, slots=2, shared=(str(folder),)) as processes:
        first, second = first_rows(processes, 0, 1)
    assert first["pid"] != second["pid"]
    assert first["loader"] == second["loader"]
    assert first["loader"] in {first["pid"], second["pid"]}
    (file,) = (path for path in folder.iterdir() if not path.name.startswith("."))
    assert first["inode"] == second["inode"] == file.stat().st_ino
    assert first["seventh"] == second["seventh"] == 7


def test_a_trial_that_writes_into_shared_data_fails_with_what_to_write_and_the_next_sees_none_of_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    with crew_of("share", tmp_path, shared=(str(folder),)) as processes:
        for trial, how in enumerate(("memory", "array")):
            processes.processes.order(0, form(trial, how=how))
            broken = processes.wait_for(Broken)
            assert broken.fault
            assert "copy what you change: array.copy(), tensor.clone()" in broken.error
            told = {
                "memory": "the int64 array of shape 1000000 of elastune.shared was written to",
                "array": "output array is read-only",
            }
            assert told[how] in broken.error
        (after,) = first_rows(processes, 2)
    assert after["seventh"] == 7
