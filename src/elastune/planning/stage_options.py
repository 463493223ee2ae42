"""The ways to run one stage that are worth a planner's time, and what each of them takes.

With constant latencies every division of a stage is considered. With random ones a division's time has to be
simulated, so node counts are thinned out to a grid, and hopeless gang sizes are dropped by bounds first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from elastune.model.billing import bills_nodes, slot_rate
from elastune.model.continuing import Continuing
from elastune.model.distributions import Array
from elastune.planning.prediction.evaluator import Evaluator
from elastune.planning.prediction.plan import (
    Allocation,
    Workload,
    divisions,
    fair_allocations,
    hopping_allocations,
    room_of,
)


class Grid(NamedTuple):
    """Node counts at which a stage with random latencies is tried: all up to one, then a ratio apart."""

    every: int
    ratio: float

    def counts(self, most: int) -> list[int]:
        counts = list(range(1, min(most, self.every) + 1))
        while counts[-1] < most:
            counts.append(min(most, max(counts[-1] + 1, round(counts[-1] * self.ratio))))
        return counts


_GRID = Grid(every=16, ratio=1.12)
# For lower bounds, which get lower by a step of the grid.
_FINE_GRID = Grid(every=64, ratio=1.02)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageOption:
    """One way to run a stage, and what it takes: barrier included, provisioning not.

    If gangs take turns the seconds are an estimate: simulating a queue is expensive and these numbers only
    guide the search; the promise is always evaluated on all samples.
    """

    allocation: Allocation
    seconds: Array
    mean_s: float
    function_usd: Array  # the cost of the stage billed by function; 0 billed by instance
    worst_seconds: Array  # the same if the slower trials are the survivors
    worst_function_usd: Array
    gang: int = 0  # slots of gangs that the next stage may keep: all trials have one; else 0
    kept: StageOption | None = None  # the same if the trials go on in their gangs; None: that saves nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """`useful`: no other one is as good on no more nodes. `all_at_once`: where gangs may be kept, every gang
    size with which all trials run at once, since a slower one may save start-ups."""

    useful: tuple[StageOption, ...]
    all_at_once: tuple[StageOption, ...] = ()


class StageUsage(NamedTuple):
    """What one way to run a stage takes, per sample, if speed has nothing to do with who survives."""

    allocation: Allocation
    seconds: Array
    mean_s: float
    function_usd: Array

    @classmethod
    def of(cls, evaluator: Evaluator, stage: int, use: Allocation, *, kept: bool) -> StageUsage:
        cluster, usd = evaluator.workload.cluster, np.zeros(1)
        if not bills_nodes(cluster):
            usd = slot_rate(cluster) * evaluator.busy_slot_s(stage, use, kept=kept)
        seconds = evaluator.estimate_s(stage, use, kept=kept) + evaluator.draws.sync_s(stage)
        return cls(use, seconds, float(seconds.mean()), usd)

    @classmethod
    def of_option(cls, option: StageOption) -> StageUsage:
        return cls(option.allocation, option.seconds, option.mean_s, option.function_usd)


_Way = TypeVar("_Way", StageOption, StageUsage)


@dataclass(frozen=True, slots=True)
class StageRuns:
    """Evaluates the ways to run one stage."""

    evaluator: Evaluator
    stage: int

    @property
    def workload(self) -> Workload:
        return self.evaluator.workload

    @property
    def trials(self) -> int:
        return self.workload.stages[self.stage].trials

    def least(self, use: Allocation) -> tuple[float, float]:
        """Of a use, on average: seconds if all goes well, barrier included; busy slot-seconds."""
        seconds = self.evaluator.least_s(self.stage, use) + self.evaluator.draws.sync_s(self.stage)
        return float(seconds.mean()), float(self.evaluator.busy_slot_s(self.stage, use).mean())

    def usage(self, use: Allocation, *, kept: bool = False) -> StageUsage:
        return StageUsage.of(self.evaluator, self.stage, use, kept=kept)

    def option(self, use: Allocation, usage: StageUsage | None = None, *, kept: bool = False) -> StageOption:
        """`usage`: as computed before."""
        usage = worst = usage or self.usage(use, kept=kept)
        if self.evaluator.slowest is not self.evaluator and self.stage:
            worst = StageUsage.of(self.evaluator.slowest, self.stage, use, kept=kept)
        keeps = use.gangs == self.trials and starts_take_time(self.workload)
        return StageOption(
            allocation=use,
            seconds=usage.seconds,
            mean_s=usage.mean_s,
            function_usd=usage.function_usd,
            worst_seconds=worst.seconds,
            worst_function_usd=worst.function_usd,
            gang=use.slots_per_trial if keeps else 0,
            kept=self.option(use, kept=True) if keeps and not kept else None,
        )


def stage_options(runs: StageRuns, sizes: range, *, fair: bool = False) -> StageOptions:
    """`fair`: only the divisions of the paper's planner."""
    workload, cluster = runs.workload, runs.workload.cluster
    if workload.hopping is not None:
        uses = hopping_allocations(
            workload.hopping,
            slots_per_node=cluster.slots_per_node,
            max_nodes=cluster.max_nodes,
            fixed=cluster.fixed,
        )
        return StageOptions(useful=_undominated(map(runs.option, uses)))
    room = {"slots_per_node": cluster.slots_per_node, "max_nodes": cluster.max_nodes}
    all_uses = (fair_allocations if fair else divisions)(runs.trials, gang_sizes=sizes, **room)
    kept: tuple[StageOption, ...] = ()
    if starts_take_time(workload):
        kept = tuple(runs.option(use) for use in all_uses if use.gangs == runs.trials)
    return StageOptions(useful=_useful(runs, _candidates(runs, all_uses), kept), all_at_once=kept)


def starts_take_time(workload: Workload) -> bool:
    """Whether gangs that stay save anything; billed by function they never stay."""
    starts = workload.profile.startup.mean + workload.profile.transfer_s > 0.0
    starts = starts or workload.continuing is Continuing.REPEATING
    return starts and workload.hopping is None and bills_nodes(workload.cluster)


def _candidates(runs: StageRuns, every: Sequence[Allocation]) -> list[Allocation]:
    """Where latencies are random, on a grid of nodes; where all turns are equal, what saves a turn."""
    workload, trials = runs.workload, runs.trials
    if not workload.is_deterministic:
        counts = set(_GRID.counts(workload.cluster.max_nodes))
        return [use for use in every if use.nodes in counts or use.gangs == trials]
    if workload.stages[runs.stage].remaining:
        return list(every)
    first = {(use.slots_per_trial, -(-trials // use.gangs)): use for use in reversed(every)}
    return list(first.values())


def _useful(
    runs: StageRuns, uses: Sequence[Allocation], known: Sequence[StageOption]
) -> tuple[StageOption, ...]:
    """The undominated ones. A use is evaluated only if no other one is as good as it could be at best."""
    options = {option.allocation: option for option in known}
    billed_by_slot = not bills_nodes(runs.workload.cluster)
    evaluated: list[StageUsage] = []
    fastest: dict[float, float] = {}  # by money, of those evaluated, which need no more nodes
    bounds = ((use.nodes, *runs.least(use), use) for use in uses)
    for _, least_s, busy_slot_s, use in sorted(bounds, key=lambda row: row[:2]):
        usd = busy_slot_s if billed_by_slot else 0.0
        if all(least_s < seconds for cost, seconds in fastest.items() if cost <= usd):
            usage = StageUsage.of_option(options[use]) if use in options else runs.usage(use)
            evaluated.append(usage)
            fastest[usd] = min(usage.mean_s, fastest.get(usd, usage.mean_s))
    # The worst case, which takes as long again, is computed only for those that are left.
    return tuple(
        options.get(usage.allocation) or runs.option(usage.allocation, usage)
        for usage in _undominated(evaluated)
    )


def lower_options(runs: StageRuns, sizes: range) -> tuple[StageOption, ...]:
    """Options no slower or dearer than any division on any sample: for every step of the grid, the room of
    its last count.

    A queue ends no sooner than its mean load or its longest trial, and gangs start at no cost. Billed by
    instance, an option has the gang size that is fastest on each sample: which one is faster on average says
    nothing of quantiles.
    """
    workload, trials = runs.workload, runs.trials
    if workload.hopping is not None:
        return stage_options(runs, sizes).useful
    counts = _FINE_GRID.counts(workload.cluster.max_nodes)
    by_size = not bills_nodes(workload.cluster)
    found: dict[tuple[int, int], StageOption] = {}
    for size in sizes:
        room = room_of(size, workload.cluster.slots_per_node)
        for count, following in itertools.pairwise([*counts, counts[-1] + 1]):
            gangs = min(trials, room.gangs_on(following - 1))
            if gangs:
                use = Allocation(nodes=count, gangs=gangs, slots_per_trial=size)
                key, option = (size if by_size else 0, count), _lower_option(runs, use)
                found[key] = _faster_of_both(found[key], option) if key in found else option
            if gangs == trials:
                break
    return tuple(_falling(found))


def _lower_option(runs: StageRuns, use: Allocation) -> StageOption:
    kept = runs.stage > 0 or bool(runs.workload.slots_now)
    found = []
    for evaluator in (runs.evaluator, runs.evaluator.slowest):
        longest = evaluator.longest_trial_s(runs.stage, use.slots_per_trial, kept=kept)
        busy = evaluator.busy_slot_s(runs.stage, use, kept=kept)
        seconds = np.maximum(longest, busy / use.slots) + evaluator.draws.sync_s(runs.stage)
        found += [seconds, slot_rate(runs.workload.cluster) * busy]
        if evaluator.slowest is evaluator:
            found += found
            break
    return StageOption(
        allocation=use,
        seconds=found[0],
        mean_s=float(found[0].mean()),
        function_usd=found[1],
        worst_seconds=found[2],
        worst_function_usd=found[3],
    )


def _faster_of_both(one: StageOption, other: StageOption) -> StageOption:
    """On every sample."""
    seconds = np.minimum(one.seconds, other.seconds)
    worst = seconds
    if one.worst_seconds is not one.seconds or other.worst_seconds is not other.seconds:
        worst = np.minimum(one.worst_seconds, other.worst_seconds)
    return replace(one, seconds=seconds, mean_s=float(seconds.mean()), worst_seconds=worst)


def _falling(found: Mapping[tuple[int, int], StageOption]) -> Iterator[StageOption]:
    """Options by size and nodes: none slower on any sample than one of the same size on fewer nodes, and
    without those that are no faster."""
    for _, of_size in itertools.groupby(sorted(found), key=lambda key: key[0]):
        best: StageOption | None = None
        for key in of_size:
            option = found[key] if best is None else _faster_of_both(found[key], best)
            if best is None or _is_ever_faster(option, best):
                yield option
                best = option


def _is_ever_faster(one: StageOption, other: StageOption) -> bool:
    faster = bool((one.seconds < other.seconds).any())
    return faster or bool((one.worst_seconds < other.worst_seconds).any())


def _undominated(options: Iterable[_Way]) -> tuple[_Way, ...]:
    """Drop options that another one equals with no more nodes, time and, billed by function, money."""
    # By instance a stage costs nodes held x time, so slots that save neither time nor nodes are useless.
    kept: list[_Way] = []
    fastest: list[tuple[float, float]] = []
    rows = [(o.allocation.nodes, o.mean_s, float(o.function_usd.mean()), o) for o in options]
    for _, seconds, usd, option in sorted(rows, key=lambda row: row[:3]):
        if all(seconds < other_s or usd < other_usd for other_s, other_usd in fastest):
            kept.append(option)
            fastest.append((seconds, usd))
    return tuple(kept)
