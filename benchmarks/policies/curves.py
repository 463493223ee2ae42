"""The tables of learning curves, ready to be replayed, and the best that can be done with them.

Real ones: twelve tasks of TaskSet and the VAE of DeepOBS (losses), NAS-Bench-NLP (loss), five problems of
DeepOBS and AlexNet on ImageNet (accuracies). Three more are samples of a surrogate model of LCBench: their
names say so, and no claim rests on them. The constants of our own policies were chosen on the tables in
`DEVELOPMENT`.

An iteration takes a minute on one slot; recorded seconds are scaled to that mean and differ as they did. The
worst that a model can be is the worst final accuracy, or the median loss of the first evaluation: a few
losses that exploded to 10^18 would otherwise be the range of their table. TaskSet's first evaluation is of
the untrained model and tells nothing more; it is left out of the curves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ITERATION_S = 60.0
DATA = Path(os.environ.get("ELASTUNE_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
"""Measurements made by others, which are not part of the project."""
Array = npt.NDArray[Any]

TASKS = 12
DEEPOBS = {
    "CIFAR-10": "cifar10_3c3d",
    "CIFAR-100": "cifar100_allcnnc",
    "Fashion-MNIST": "fmnist_2c2d",
    "SVHN": "svhn_wrn164",
    "Tolstoi": "tolstoi_char_rnn",
    "MNIST VAE": "mnist_vae",
}
SURROGATES = {"Fashion-MNIST": "fashion", "Adult": "adult", "task 167152": "t167152"}
DEVELOPMENT = ("TaskSet 0", "TaskSet 5", "AlexNet")
"""Constants of our own policies were chosen on these."""


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
    def training_s(self) -> float:
        """A complete training on one slot."""
        return self.longest * ITERATION_S

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


def real_tables() -> list[str]:
    return [
        *(f"TaskSet {number}" for number in range(TASKS)),
        "AlexNet",
        *(f"DeepOBS {name}" for name in DEEPOBS),
        "NAS-Bench-NLP",
    ]


def held_out_tables() -> list[str]:
    return [name for name in real_tables() if name not in DEVELOPMENT]


def surrogate_tables() -> list[str]:
    return [f"surrogate: LCBench {name}" for name in SURROGATES]


def is_surrogate(table: str) -> bool:
    return table.startswith("surrogate: ")


def load_tables(names: Sequence[str], folder: Path, data: Path = DATA) -> list[CurveSet]:
    """These tables; what the jobs replay is written to `folder`."""
    makers = _makers()
    unknown = [name for name in names if name not in makers]
    if unknown:
        raise ValueError(f"no table {', '.join(unknown)}; there are: {', '.join(makers)}")
    loaded = []
    for number, name in enumerate(names):
        file, make = makers[name]
        source = data / "curves" / f"{file}.npz"
        if not source.is_file():
            raise NoDataError(
                f"{source} is absent; it comes with the measurements in shared/data, not with the project. "
                "ELASTUNE_SHARED_DATA names another folder"
            )
        with np.load(source) as arrays:
            loaded.append(make(name, folder / f"table{number}.npz", arrays))
    return loaded


Arrays = Mapping[str, Array]
Make = Callable[[str, Path, Arrays], CurveSet]


def _makers() -> dict[str, tuple[str, Make]]:
    """The file of each table, and how a curve set is made of its arrays."""
    return {
        **{f"TaskSet {number}": ("taskset_imdb_rnn", _task(number)) for number in range(TASKS)},
        "AlexNet": ("alexnet_imagenet", _alexnet),
        **{f"DeepOBS {name}": (f"deepobs_{file}", _deepobs) for name, file in DEEPOBS.items()},
        "NAS-Bench-NLP": ("nasbenchnlp_wikitext2", _nlp),
        **{
            f"surrogate: LCBench {name}": (f"SURROGATE_lcbench_{file}", _surrogate)
            for name, file in SURROGATES.items()
        },
    }


def made_up(
    folder: Path, *, configurations: int = 40, epochs: int = 12, uneven: bool = False, name: str = "made up"
) -> CurveSet:
    """For tests: losses that fall towards a value of their own; with `uneven`, at a speed of their own."""
    rng = np.random.default_rng(0)
    falls = np.exp(-rng.random((configurations, 1)) * np.arange(1, epochs + 1))
    losses = rng.random((configurations, 1)) * (1 - falls) + falls
    hp = {"hp": rng.random((configurations, 2))}
    seconds = rng.uniform(20.0, 90.0, losses.shape) if uneven else None
    path = folder / f"{name.replace(' ', '-')}.npz"
    return _write(path, name, ("loss", losses), hp, worst=1.0, seconds=seconds)


def _task(number: int) -> Make:
    def make(name: str, path: Path, arrays: Arrays) -> CurveSet:
        losses = arrays["valid_loss"][number].astype(np.float64)
        worst = float(np.nanmedian(losses[:, 0]))
        return _write(path, name, ("valid_loss", losses[:, 1:]), _named(arrays), worst=worst)

    return make


def _deepobs(name: str, path: Path, arrays: Arrays) -> CurveSet:
    metric = "test_accuracy" if "test_accuracy" in arrays else "test_loss"
    return _write(path, name, (metric, arrays[metric].astype(np.float64)), _named(arrays))


def _nlp(name: str, path: Path, arrays: Arrays) -> CurveSet:
    losses, seconds = (arrays[key].astype(np.float64) for key in ("val_loss", "seconds"))
    return _write(path, name, ("val_loss", losses), _named(arrays), seconds=seconds)


def _surrogate(name: str, path: Path, arrays: Arrays) -> CurveSet:
    values = arrays["val_accuracy"].astype(np.float64)
    # The mean of each configuration: a surrogate's time may run backwards.
    seconds = np.repeat(arrays["time"][:, -1:].astype(np.float64), values.shape[1], axis=1)
    return _write(path, name, ("val_accuracy", values), _named(arrays), seconds=seconds)


def _alexnet(name: str, path: Path, arrays: Arrays) -> CurveSet:
    """Its configurations are trained for as many epochs as they say."""
    kept = ("epochs", "batch_size", "lr", "lr_peak_epoch", "momentum", "weight_decay", "label_smoothing")
    rest = {key: arrays[key] for key in kept}
    accuracy = arrays["top_1"].astype(np.float64)
    scheduled = np.arange(accuracy.shape[1]) < rest["epochs"][:, None]
    accuracy = np.where(scheduled, accuracy, np.nan)
    seconds = np.diff(arrays["time"].astype(np.float64), axis=1, prepend=0.0)
    return _write(path, name, ("top_1", accuracy), rest, seconds=seconds)


def _named(arrays: Arrays) -> Arrays:
    return {key: arrays[key] for key in ("hp", "hp_names")}


def _write(
    path: Path,
    name: str,
    curves: tuple[str, Array],
    rest: Arrays,
    *,
    worst: float | None = None,
    seconds: Array | None = None,
) -> CurveSet:
    metric, values = curves
    mode = "min" if metric.endswith("loss") else "max"
    written = {metric: values, **rest}
    if seconds is not None:
        seconds *= ITERATION_S / np.mean([np.nanmean(row) for row in seconds if np.isfinite(row).any()])
        written["seconds"] = seconds
    np.savez(path, **written)  # type: ignore[arg-type]  # no array is called allow_pickle
    losses = -values if mode == "max" else values
    losses = np.where(np.logical_and.accumulate(np.isfinite(losses), axis=1), losses, np.nan)
    if worst is None:
        worst = float(np.nanmax(_finals(losses)) if mode == "max" else np.nanmedian(losses[:, 0]))
    if seconds is None:
        seconds = np.full(losses.shape, ITERATION_S)
    return CurveSet(
        name=name, path=path, metric=metric, mode=mode, losses=losses, seconds=seconds, worst=worst
    )


def _finals(losses: Array) -> Array:
    """The last value of each configuration that did not diverge."""
    finals: Sequence[float] = [row[~np.isnan(row)][-1] for row in losses if np.isfinite(row).any()]
    return np.asarray(finals)
