"""The simulated settings of Cerebro's section 5.4: how long a configuration trains on a worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from elastune.hopping.epoch import Epoch, HopWorker, PartitionId, WorkerId
from elastune.model.ids import TrialId

# Table 7, in MFLOPs; as printed, most are rounded to GFLOPs. Mean 5,942, standard deviation 5,670.
CNN_MFLOPS = (
    727, 724, 837, 360, 727, 2_000, 3_000, 2_000, 2_000, 2_000, 16_000, 16_000, 20_000, 2_000, 2_000, 4_000,
    4_000, 8_000, 11_000, 4_000, 8_000, 16_000, 6_000, 4_000, 8_000, 11_000, 4_000, 8_000, 21_000, 2_000,
    3_000, 8_000, 3_000, 4_000, 579,
)  # fmt: skip
# Titan Xp, K80, GTX 1080, P100.
GPU_TFLOPS_PER_S = (12.1, 5.6, 11.3, 18.7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`replicas`: on how many workers each partition lies."""

    configs: int
    workers: int
    mixed: bool
    replicas: int = 1

    @property
    def name(self) -> str:
        return "heterogeneous" if self.mixed else "homogeneous"

    def epoch(self, seed: int) -> Epoch:
        """Costs and speeds are drawn with replacement; where all are equal nothing is drawn."""
        draw = np.random.default_rng(seed)
        costs = draw.choice(CNN_MFLOPS, self.configs) if self.mixed else np.full(self.configs, 4_000)
        speeds = draw.choice(GPU_TFLOPS_PER_S, self.workers) if self.mixed else np.full(self.workers, 10.0)
        trials = tuple(TrialId(i) for i in range(self.configs))
        partitions = tuple(PartitionId(j) for j in range(self.workers))
        return Epoch(
            trials=trials,
            partitions=partitions,
            workers=tuple(
                HopWorker(
                    id=WorkerId(f"worker-{j:02}"),
                    partitions=frozenset(partitions[(j + k) % self.workers] for k in range(self.replicas)),
                    unit_s={trial: float(costs[trial] / speeds[j]) for trial in trials},
                )
                for j in range(self.workers)
            ),
        )


def paper_settings() -> Iterator[Setting]:
    for mixed in (False, True):
        for configs in (16, 256):
            for workers in (8, 16):
                yield Setting(configs=configs, workers=workers, mixed=mixed)
