"""The placement ablation (section 6.2, Table 1): gangs placed by the controller, or wherever a slot is free.

The paper ran ResNet-50 on p3.16xlarge (8 V100). Here placements are simulated, and their speeds were measured
by others: step times of data-parallel training for every placement of up to 16 GPUs on up to 4 nodes of 4 (of
the simulator of AdaptDL, OSDI 2021; nodes of 4 T4). `cifar10` is ResNet-18, `imagenet` ResNet-50. The global
batch is constant, as in the paper, with the step time interpolated between measured batches per GPU; for
`bert` such small batches were not measured, so there the batch grows with the GPUs, 8 on each.

*Placed*: Elastune's placement controller. *Not placed*: every worker takes a random free slot, as if the
scheduler below had no location preferences. First a cluster is filled with gangs of one size (Table 1). Then
the plan of the paper's Table 3 is followed with either: a stage ends with its slowest gang.
"""

from __future__ import annotations

import csv
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, pstdev

from benchmarks.paper.end_to_end import EPOCH_S, TABLE_3_SLOTS_PER_TRIAL
from benchmarks.paper.setting import MINUTE, SLOTS_PER_NODE, USD_PER_HOUR, sha
from benchmarks.policies.curves import DATA, NoDataError
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.placement.controller import place
from elastune.placement.request import PlacementNodes, PlacementRequest, SlotWish
from elastune.planning.prediction.plan import allocate

SIZES = (1, 2, 4)
NODES = 4  # placements on more were not measured
SEEDS = 200
STAGES = sha(32, 1, 50, eta=3).stages
# Samples per second, placed and not placed, by GPUs.
PAPER: Mapping[int, tuple[float, float]] = {1: (749.58, 673.76), 2: (1480.07, 947.76), 4: (2773.04, 1209.51)}

Spread = tuple[int, ...]
"""How many GPUs of a gang are on each of its nodes, most first."""
StepTimes = Mapping[Spread, Mapping[int, float]]
"""Seconds by spread and batch per GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A model at a constant global batch, or at one that grows with the GPUs."""

    model: str
    batch: int
    grows: bool = False

    def __str__(self) -> str:
        return f"{self.model}, batch {self.batch}{' per GPU' if self.grows else ''}"

    def throughput(self, times: StepTimes, spread: Spread) -> float:
        """Samples per second."""
        slots = sum(spread)
        each = self.batch if self.grows else self.batch / slots
        return each * slots / interpolate(times[spread], each)


TRAININGS = (
    Training(model="cifar10", batch=1024),
    Training(model="cifar10", batch=256),
    Training(model="imagenet", batch=200),
    Training(model="bert", batch=8, grows=True),
)


def interpolate(points: Mapping[int, float], at: float) -> float:
    """Linear between measured points, and up to 1 % beyond them: 512 was measured as 513."""
    keys = sorted(points)
    if not keys[0] * 0.99 <= at <= keys[-1] * 1.01:
        raise NoDataError(f"a batch of {at:g} per GPU was not measured; {keys[0]} to {keys[-1]} were")
    pairs = list(itertools.pairwise(keys))
    low, high = next((pair for pair in pairs if at <= pair[1]), pairs[-1])
    return points[low] + (points[high] - points[low]) * (at - low) / (high - low)


def load_step_times(model: str, data: Path = DATA) -> StepTimes:
    path = data / "scaling" / f"{model}-placements.csv"
    if not path.is_file():
        raise NoDataError(
            f"{path} is absent; it comes with the measurements in shared/data, not with the project"
        )
    found: dict[Spread, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            spread = tuple(sorted(map(int, row["placement"]), reverse=True))
            found[spread][int(row["local_bsz"])].append(float(row["step_time"]))
    return {spread: {bsz: fmean(times) for bsz, times in of.items()} for spread, of in found.items()}


def placed(gangs: int, slots: int, nodes: int) -> list[Spread]:
    """By the placement controller, on an empty cluster."""
    names = tuple(NodeId(f"n{number}") for number in range(nodes))
    wishes = tuple(SlotWish(trial=TrialId(number), slots=slots) for number in range(gangs))
    cluster = PlacementNodes(nodes=names, slots_per_node=SLOTS_PER_NODE)
    return [_spread(gang) for gang in place(PlacementRequest(cluster=cluster, wishes=wishes)).gangs.values()]


def scattered(gangs: int, slots: int, nodes: int, luck: Random) -> list[Spread]:
    """Every worker on a random free slot."""
    free = [Slot(NodeId(f"n{node}"), number) for node in range(nodes) for number in range(SLOTS_PER_NODE)]
    drawn = luck.sample(free, gangs * slots)
    return [_spread(drawn[first : first + slots]) for first in range(0, len(drawn), slots)]


def _spread(gang: Sequence[Slot]) -> Spread:
    return tuple(sorted(Counter(slot.node for slot in gang).values(), reverse=True))


def measure_throughput(
    training: Training, times: StepTimes, slots: int, *, seeds: int = SEEDS
) -> tuple[list[float], list[float]]:
    """Samples per second of every gang on a full cluster: placed, and not placed."""
    gangs = NODES * SLOTS_PER_NODE // slots
    drawn = [scattered(gangs, slots, NODES, Random(seed)) for seed in range(seeds)]
    own = [training.throughput(times, spread) for spread in placed(gangs, slots, NODES)]
    return own, [training.throughput(times, spread) for spreads in drawn for spread in spreads]


def stages_of_table_3(
    training: Training, times: StepTimes, luck: Random | None
) -> Iterator[tuple[float, float]]:
    """Seconds and dollars of each stage, without provisioning; `luck` None: placed."""
    one = training.throughput(times, (1,))
    for stage, slots in zip(STAGES, TABLE_3_SLOTS_PER_TRIAL, strict=True):
        use = allocate(gangs=stage.trials, slots_per_trial=slots, slots_per_node=SLOTS_PER_NODE)
        shape = (use.gangs, slots, use.nodes)
        spreads = placed(*shape) if luck is None else scattered(*shape, luck)
        slowest = min(training.throughput(times, spread) for spread in spreads)
        seconds = stage.iterations * EPOCH_S * one / slowest
        yield seconds, use.nodes * seconds * USD_PER_HOUR / 3600.0


def measure_search(
    training: Training, times: StepTimes, *, seeds: int = SEEDS
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Minutes and dollars of the whole search: placed, and not placed in the mean."""
    seconds, usd = _sums(stages_of_table_3(training, times, None))
    drawn = [_sums(stages_of_table_3(training, times, Random(seed))) for seed in range(seeds)]
    other_s, other_usd = (fmean(values) for values in zip(*drawn, strict=True))
    return (seconds / MINUTE, usd), (other_s / MINUTE, other_usd)


def _sums(stages: Iterator[tuple[float, float]]) -> tuple[float, float]:
    seconds, usd = (sum(values) for values in zip(*stages, strict=True))
    return seconds, usd


def run(track: Track = silently) -> Report:
    times = {each.model: load_step_times(each.model) for each in TRAININGS}
    return Report(tables=(_throughput_table(times, track), _search_table(times, track)))


def _throughput_table(times: Mapping[str, StepTimes], track: Track) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for training, slots in track([(training, slots) for training in TRAININGS for slots in SIZES]):
        own, other = measure_throughput(training, times[training.model], slots)
        written = [f"{fmean(each):,.1f} ± {pstdev(each):,.1f}" for each in (own, other)]
        paper = PAPER[slots]
        rows.append((str(training), slots, *written, fmean(own) / fmean(other), paper[0] / paper[1]))
    return Table(
        name="table-1",
        title=f"Table 1: samples per second of a gang on {NODES} full nodes of {SLOTS_PER_NODE} GPUs",
        header=("training", "GPUs", "placed", "not placed", "ratio", "paper ratio"),
        rows=tuple(rows),
        note=f"± is the standard deviation over gangs; not placed: {SEEDS} random placements. Step times "
        "were measured by AdaptDL on nodes of 4 T4; the paper: ResNet-50, batch 1024, nodes of 8 V100.",
    )


def _search_table(times: Mapping[str, StepTimes], track: Track) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for training in track(TRAININGS):
        own, other = measure_search(training, times[training.model])
        rows.append((str(training), own[0], other[0], own[1], other[1], other[1] / own[1]))
    return Table(
        name="table-1-search",
        title="What placement is worth to the search of Tables 2 and 3, with the gangs of Table 3",
        header=("training", "placed min", "not placed min", "placed $", "not placed $", "$ ratio"),
        rows=tuple(rows),
        note=f"Training alone, without provisioning. An epoch takes {EPOCH_S:g} s on one GPU; a stage ends "
        f"with its slowest gang; not placed: means of {SEEDS} random placements.",
    )
