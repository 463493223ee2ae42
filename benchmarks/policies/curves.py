"""The 13 tables of learning curves, ready to be replayed, and the best that anybody could have done.

Twelve tasks of TaskSet (validation loss, less is better) and AlexNet on ImageNet (top-1 accuracy). TaskSet's
first evaluation is of the untrained model and tells nothing; it is left out, and its median is the worst that
a model can be: a few losses that exploded to 10^18 would otherwise be the range of their table. An iteration
takes a minute on one slot; AlexNet's recorded seconds are scaled to that mean and differ as they did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ITERATION_S = 60.0
DATA = Path(__file__).parents[3] / "shared" / "data"
Array = npt.NDArray[Any]


class NoDataError(Exception):
    """There is nothing to measure with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSet:
    """`losses` has a row per configuration, less is better; NaN from where it diverged or was not run."""

    name: str
    path: Path
    metric: str
    mode: str
    losses: Array
    seconds: Array
    worst: float
    """What a policy has that ends with nothing."""

    @property
    def longest(self) -> int:
        return int(self.losses.shape[1])

    @property
    def span(self) -> float:
        """The range of final values."""
        return self.worst - float(np.nanmin(_finals(self.losses)))

    def loss(self, value: float | None) -> float:
        """Of a model with this metric, or of none."""
        if value is None:
            return self.worst
        return min(self.worst, -value if self.mode == "max" else value)

    def clairvoyant(self, deadline_s: float, speedup: float) -> float:
        """The best checkpoint of any configuration trained alone, so many times faster than on one slot."""
        ends_s = np.cumsum(self.seconds, axis=1) / speedup
        return float(np.nanmin(np.where(ends_s <= deadline_s * (1 + 1e-9), self.losses, np.nan)))

    def regret(self, value: float | None, clairvoyant: float) -> float:
        """In percent of the range."""
        return 100.0 * (self.loss(value) - clairvoyant) / self.span


def load_all(folder: Path, data: Path = DATA) -> list[CurveSet]:
    """All tables; what the jobs replay is written to `folder`."""
    sources = [data / "curves" / f"{name}.npz" for name in ("taskset_imdb_rnn", "alexnet_imagenet")]
    for source in sources:
        if not source.is_file():
            raise NoDataError(
                f"{source} is absent; it comes with the measurements in shared/data, not with the project"
            )
    return [*_taskset(sources[0], folder), _alexnet(sources[1], folder)]


def made_up(folder: Path, *, configurations: int = 40, epochs: int = 12) -> CurveSet:
    """For tests: losses that fall towards a value of their own."""
    rng = np.random.default_rng(0)
    falls = np.exp(-rng.random((configurations, 1)) * np.arange(1, epochs + 1))
    losses = rng.random((configurations, 1)) * (1 - falls) + falls
    hp = rng.random((configurations, 2))
    return _write(folder / "made-up.npz", "made up", "loss", losses, {"hp": hp}, worst=1.0)


def _taskset(source: Path, folder: Path) -> list[CurveSet]:
    with np.load(source) as arrays:
        losses, hp, names, tasks = (arrays[key] for key in ("valid_loss", "hp", "hp_names", "tasks"))
    sets = []
    for number, task in enumerate(tasks):
        curves = losses[number].astype(np.float64)
        name = str(task).removeprefix("FixedTextRNNClassification_imdb_")
        path = folder / f"task{number}.npz"
        rest = {"hp": hp, "hp_names": names}
        sets.append(
            _write(path, name, "valid_loss", curves[:, 1:], rest, worst=float(np.nanmedian(curves[:, 0])))
        )
    return sets


def _alexnet(source: Path, folder: Path) -> CurveSet:
    with np.load(source) as arrays:
        kept = ("epochs", "batch_size", "lr", "lr_peak_epoch", "momentum", "weight_decay", "label_smoothing")
        rest = {name: arrays[name] for name in kept}
        accuracy = arrays["top_1"].astype(np.float64)
        seconds = np.diff(arrays["time"].astype(np.float64), axis=1, prepend=0.0)
    seconds *= ITERATION_S / np.nanmean([np.nanmean(row) for row in seconds if np.isfinite(row).any()])
    path = folder / "alexnet.npz"
    np.savez(path, top_1=accuracy, seconds=seconds, **rest)
    scheduled = np.arange(accuracy.shape[1]) < rest["epochs"][:, None]
    losses = np.where(scheduled, -accuracy, np.nan)
    return CurveSet(
        name="AlexNet on ImageNet",
        path=path,
        metric="top_1",
        mode="max",
        losses=losses,
        seconds=seconds,
        worst=float(np.nanmax(_finals(losses))),
    )


def _write(
    path: Path, name: str, metric: str, losses: Array, rest: Mapping[str, Array], *, worst: float
) -> CurveSet:
    np.savez(path, **{metric: losses, **rest})  # type: ignore[arg-type]  # no array is called allow_pickle
    seconds = np.full(losses.shape, ITERATION_S)
    losses = np.where(np.logical_and.accumulate(np.isfinite(losses), axis=1), losses, np.nan)
    return CurveSet(
        name=name, path=path, metric=metric, mode="min", losses=losses, seconds=seconds, worst=worst
    )


def _finals(losses: Array) -> Array:
    """The last value of each configuration that did not diverge."""
    finals: Sequence[float] = [row[~np.isnan(row)][-1] for row in losses if np.isfinite(row).any()]
    return np.asarray(finals)
