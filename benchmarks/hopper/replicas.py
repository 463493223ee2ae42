"""What replicas are worth: the same heterogeneous epochs with every partition on one, two, three workers."""

from __future__ import annotations

import statistics
from dataclasses import replace

from benchmarks.hopper.settings import Setting
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.hopping.schedulers import make_scheduler
from elastune.hopping.simulation import check_schedule, simulate

SIZES = (Setting(configs=16, workers=8, mixed=True), Setting(configs=256, workers=16, mixed=True))


def run(track: Track = silently, *, epochs: int = 10, sizes: tuple[Setting, ...] = SIZES) -> Report:
    rows: list[tuple[Cell, ...]] = []
    for setting, copies in track([(size, copies) for size in sizes for copies in (1, 2, 3)]):
        rows.append(_row(setting, copies, epochs))
    return Report(
        tables=(
            Table(
                name="replicas",
                title="Heterogeneous epochs with replicas: percent above the bound, and what replicas save",
                header=(
                    "configs",
                    "workers",
                    "replicas",
                    "list mean",
                    "worst",
                    "randomized mean",
                    "worst",
                    "list: time without replicas = 1",
                ),
                rows=tuple(rows),
                note=f"{epochs} epochs. Worker j holds the partitions j, j+1, ...",
            ),
        )
    )


def _row(setting: Setting, copies: int, epochs: int) -> tuple[Cell, ...]:
    listed, drawn, saved = [], [], []
    for seed in range(epochs):
        epoch = replace(setting, replicas=copies).epoch(seed)
        ours = simulate(epoch, make_scheduler("list"))
        check_schedule(epoch, ours)
        theirs = simulate(epoch, make_scheduler("randomized", seed=seed), bound_s=ours.bound_s)
        alone = simulate(setting.epoch(seed), make_scheduler("list"))
        listed.append(max(0.0, round(100 * ours.gap, 6)))
        drawn.append(max(0.0, round(100 * theirs.gap, 6)))
        saved.append(ours.makespan_s / alone.makespan_s)
    return (
        setting.configs,
        setting.workers,
        copies,
        statistics.mean(listed),
        max(listed),
        statistics.mean(drawn),
        max(drawn),
        statistics.mean(saved),
    )
