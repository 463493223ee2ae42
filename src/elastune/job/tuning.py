"""What a job tunes: the parts that only a run needs and a plan does not.

For a simulation the trainable is opened and settles what the job left to it. For a real run it is code that
is imported only where it trains; then all that is not the training comes from the job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from elastune.errors import JobError
from elastune.job.sampler import Kind, SamplerSection
from elastune.job.trainable import SpaceReference, open_space
from elastune.space import (
    AnySpace,
    Configuration,
    GridSampler,
    ModelSampler,
    QmcSampler,
    RandomSampler,
    Sampler,
    StartingSampler,
    TableSampler,
)
from elastune.spec import Mode
from elastune.trainables import SYNTHETIC, CurveFile, Reference, Trainable, open_trainable, possible
from elastune.trainables.unknown import UnknownTrainable

# Metrics of which less is better. The short ones count as words of a name: `val_mse`, not `msecret`.
_LOSSES = ("loss", "error", "perplexity", "deviance", "divergence", "latency", "regret")
_SHORT_LOSSES = frozenset(
    {"mse", "rmse", "rmsle", "mae", "mape", "smape", "nll", "bpb", "bpc", "wer", "cer", "ppl", "fid"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """`space` is the job's, or else the trainable's own; a table of configurations needs none."""

    trainable: Trainable
    """Where a simulation gets its metrics from; of a real training nothing is known."""
    metric: str
    mode: Mode
    space: AnySpace | None
    sampler: SamplerSection
    starts: tuple[Configuration, ...] = ()
    """What the first trials get."""

    def make_sampler(self, seed: int, *, learns: bool = True) -> Sampler:
        """With `learns` false, what would learn draws at random: for rehearsals, which teach nothing."""
        kind = self.sampler.kind
        if kind == "table":
            sampler = self._table_sampler(seed)
        else:
            sampler = self._space_sampler(seed, kind if learns or kind not in ("tpe", "gp") else "random")
        return StartingSampler(sampler, self.starts) if self.starts else sampler

    def _table_sampler(self, seed: int) -> Sampler:
        if self.trainable.table is None:
            raise JobError("search.sampler is table, but the trainable is no table of configurations")
        return TableSampler(self.trainable.table, seed=seed, replace=self.sampler.replace)

    def _space_sampler(self, seed: int, kind: Kind) -> Sampler:
        space = self.space
        if space is None:
            example = "{lr: {float: [1e-4, 1.0], log: true}}"
            raise JobError(f"space is missing; expected the hyperparameters to search, such as {example}")
        match kind:
            case "grid":
                return GridSampler(space, seed=seed)
            case "qmc":
                return QmcSampler(space, seed=seed, sequence=self.sampler.sequence)
            case "tpe" | "gp" as model:
                return ModelSampler(
                    space, seed=seed, mode=self.mode, model=model, startup=self.sampler.startup
                )
            case _:
                return RandomSampler(space, seed=seed)


def open_tuning(
    reference: Reference | None,
    *,
    metric: str | None,
    mode: Mode | None,
    space: SpaceReference | None,
    sampler: SamplerSection,
    starts: tuple[Configuration, ...] = (),
) -> Tuning:
    """Open the trainable and settle what the job left to it."""
    if reference is None:
        raise JobError(f"simulate needs `trainable`: {possible()}")
    trainable = open_trainable(reference, metric=metric)
    return Tuning(
        trainable=trainable,
        metric=trainable.metric,
        mode=mode or trainable.mode or _default_mode(trainable.metric),
        space=trainable.space if space is None else open_space(space),
        sampler=sampler,
        starts=starts,
    )


def unopened_tuning(
    *,
    metric: str | None,
    mode: Mode | None,
    space: SpaceReference | None,
    sampler: SamplerSection,
    starts: tuple[Configuration, ...] = (),
) -> Tuning:
    """What the job says by itself. A space that is a function is imported, the trainable is not."""
    if metric is None:
        raise JobError("metric is missing; expected the name of what the trainable reports, such as accuracy")
    return Tuning(
        trainable=UnknownTrainable(metric),
        metric=metric,
        mode=mode or _default_mode(metric),
        space=None if space is None else open_space(space),
        sampler=sampler,
        starts=starts,
    )


def is_code(reference: Reference | None) -> bool:
    """Whether a trainable is a class or a function, and not what Elastune reads or brings itself."""
    if reference is None or isinstance(reference, CurveFile):
        return False
    return not isinstance(reference, str) or reference not in SYNTHETIC


def _default_mode(metric: str) -> Mode:
    """The largest is best. But nobody wants the largest loss: then the job has to say what it means."""
    words = set(re.split(r"[^a-z]+", metric.lower()))
    if words & _SHORT_LOSSES or any(name in metric.lower() for name in _LOSSES):
        raise JobError(
            f"mode is missing, and the metric {metric!r} looks like one to minimise; expected max or min"
        )
    return Mode.MAX
