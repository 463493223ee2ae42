"""What a job tunes, once its trainable is open: the parts that only a run needs and a plan does not."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.errors import JobError
from elastune.job.sampler import SamplerSection
from elastune.space import GridSampler, RandomSampler, Sampler, Space, TableSampler
from elastune.spec import Mode
from elastune.trainables import Reference, Trainable, open_trainable, possible

_LOSSES = ("loss", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """`space` is the job's, or else the trainable's own; a table of configurations needs none."""

    trainable: Trainable
    metric: str
    mode: Mode
    space: Space | None
    sampler: SamplerSection

    def make_sampler(self, seed: int) -> Sampler:
        if self.sampler.kind == "table":
            if self.trainable.table is None:
                raise JobError("search.sampler is table, but the trainable is no table of configurations")
            return TableSampler(self.trainable.table, seed=seed, replace=self.sampler.replace)
        if self.space is None:
            example = "{lr: {float: [1e-4, 1.0], log: true}}"
            raise JobError(f"space is missing; expected the hyperparameters to search, such as {example}")
        return (
            GridSampler(self.space) if self.sampler.kind == "grid" else RandomSampler(self.space, seed=seed)
        )


def open_tuning(
    reference: Reference | None,
    *,
    metric: str | None,
    mode: Mode | None,
    space: Space | None,
    sampler: SamplerSection,
) -> Tuning:
    """Open the trainable and settle what the job left to it."""
    if reference is None:
        raise JobError(f"simulate needs `trainable`: {possible()}")
    trainable = open_trainable(reference, metric=metric)
    return Tuning(
        trainable=trainable,
        metric=trainable.metric,
        mode=mode or trainable.mode or _default_mode(trainable.metric),
        space=space or trainable.space,
        sampler=sampler,
    )


def _default_mode(metric: str) -> Mode:
    """The largest is best. But nobody wants the largest loss: then the job has to say what it means."""
    if any(name in metric.lower() for name in _LOSSES):
        raise JobError(
            f"mode is missing, and the metric {metric!r} looks like one to minimise; expected max or min"
        )
    return Mode.MAX
