"""The table of curves that both simulators replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parents[3] / "shared" / "data" / "curves" / "taskset_imdb_rnn.npz"
METRIC = "valid_loss"
TASK = 0


class NoDataError(Exception):
    """There is nothing to measure with."""


def write_table(folder: Path) -> Path:
    """One task, with trainings that diverged at its worst loss from there on.

    Ours would end such a trial and Syne Tune sort NaN into its rungs: not the same work.
    """
    if not SOURCE.is_file():
        raise NoDataError(
            f"{SOURCE} is absent; it comes with the measurements in shared/data, not with the project"
        )
    with np.load(SOURCE) as arrays:
        losses = arrays[METRIC][TASK].astype(np.float64)
        losses = np.where(np.isfinite(losses), losses, np.nanmax(losses))
        path = folder / "curves.npz"
        np.savez(path, hp=arrays["hp"], hp_names=arrays["hp_names"], valid_loss=losses)
    return path


def write_small_table(folder: Path, *, configurations: int = 20, epochs: int = 9) -> Path:
    """Made up, for tests."""
    rng = np.random.default_rng(0)
    losses = rng.random((configurations, 1)) + 1.0 / np.arange(1, epochs + 1)
    path = folder / "curves.npz"
    np.savez(path, hp=rng.random((configurations, 2)), hp_names=np.array(["a", "b"]), valid_loss=losses)
    return path
