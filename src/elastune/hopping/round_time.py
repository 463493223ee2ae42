"""How long a round of equal trials takes: simulated with the layout and the scheduler of a run.

The open-shop bound of a round is reached if all units take equally long and every partition has one holder.
Replicas, workers beyond the partitions, evaluation after the last training visit, saves at the end of an
epoch and hops between nodes add to it, by amounts that depend on the layout. So rounds are simulated: one as
the first, whose models have no place yet, and one as all others, whose models are where the one before left
them. Where epochs overlap there are no rounds: some epochs of all trials are simulated as a whole.
"""

from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass

from elastune.hopping.epoch import (
    Epoch,
    Hops,
    HopWorker,
    PartitionId,
    Underway,
    Unit,
    UnitEnded,
    UnitStarted,
    WorkerId,
)
from elastune.hopping.epoch_state import EpochState
from elastune.hopping.layout import WorkerPlace, lay_out_all
from elastune.hopping.partitions import DataTerms
from elastune.hopping.schedulers import DEFAULT_SCHEDULER, make_scheduler
from elastune.hopping.simulation import simulate
from elastune.model.ids import TrialId

# Larger rounds are near their bound, and take a second to simulate.
MOST_UNITS = 1_500
_LEAST_S = 1e-9
# Where epochs overlap: with fewer simulated, those left out are unknown.
_LEAST_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class HopWorkers:
    """The slots of some nodes, of which the first `count` are workers."""

    count: int
    slots_per_node: int

    def places(self) -> list[WorkerPlace]:
        slots = (divmod(number, self.slots_per_node) for number in range(self.count))
        return [WorkerPlace(WorkerId(f"{node}:{slot}"), str(node)) for node, slot in slots]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitCosts:
    """Mean seconds: of an epoch's training and evaluation, and of what comes with a visit."""

    epoch_s: float
    startup_s: float  # of every visit
    save_s: float  # of the last visit in an epoch
    transfer_s: float  # of a hop to another node, and of writing the checkpoint


@dataclass(frozen=True, slots=True)
class RoundTimes:
    first_s: float
    later_s: float

    def total_s(self, rounds: int) -> float:
        return self.first_s + (rounds - 1) * self.later_s


@functools.lru_cache(maxsize=4096)
def round_times(
    trials: int, workers: HopWorkers, data: DataTerms, costs: VisitCosts, *, loads: bool
) -> RoundTimes | None:
    """`loads`: the models exist already, where an earlier round left them. None: too large to simulate."""
    if trials * data.visits > MOST_UNITS:
        return None
    rounds = _Rounds(trials, workers, data, costs)
    first_s = rounds.go_through()
    if costs.transfer_s <= 0.0:
        return RoundTimes(first_s, first_s)
    later_s = rounds.go_through()
    return RoundTimes(later_s if loads else first_s, later_s)


class _Rounds:
    """Rounds one after the other; `at` is the node of each model, `done` the visits of each trial."""

    def __init__(self, trials: int, workers: HopWorkers, data: DataTerms, costs: VisitCosts) -> None:
        places = workers.places()
        self.trials = tuple(TrialId(number) for number in range(trials))
        self.data = data
        self.costs = costs
        self.loads = False
        self.layout = lay_out_all(places, data)
        self.nodes = {place.worker: place.node for place in places}
        self.at: dict[TrialId, str] = {}
        self.done: dict[TrialId, int] = {}
        self.rounds = 0

    def go_through(self) -> float:
        """The next round; returns its seconds."""
        self.rounds += 1
        self.done = dict.fromkeys(self.trials, 0)
        phases = (False, True) if self.data.validation_rows else (False,)
        seconds = sum(self._phase_s(evaluates=evaluates) for evaluates in phases)
        self.loads = True
        return seconds

    def _phase_s(self, *, evaluates: bool) -> float:
        # The exact scheduler is for runs: here the rule that it starts from is near enough.
        name = self.data.scheduler if self.data.scheduler != "exact" else DEFAULT_SCHEDULER
        scheduler = make_scheduler(name, seed=self.rounds, hasty=True)
        epoch = self._epoch(evaluates=evaluates)
        return simulate(epoch, scheduler, actual_s=self._visit_s, bound_s=0.0).makespan_s

    def _epoch(self, *, evaluates: bool) -> Epoch:
        data, trials = self.data, self.trials
        numbers = data.numbers(validation=evaluates)
        pace_s = self._visit_of_mean_s(evaluates=evaluates)
        is_end = evaluates or not data.validation_rows
        on_node = {node: worker for worker, node in self.nodes.items()}
        return Epoch(
            trials=trials,
            partitions=numbers,
            workers=tuple(
                HopWorker(
                    id=worker,
                    partitions=held,
                    unit_s=dict.fromkeys(trials, pace_s),
                    node=self.nodes[worker],
                )
                for worker, held in self.layout.items()
            ),
            sizes=data.sizes(validation=evaluates),
            hops=Hops(
                seconds=dict.fromkeys(trials, self.costs.transfer_s),
                at={trial: on_node[node] for trial, node in self.at.items()},
                new=frozenset(trial for trial in trials if not (self.loads or self.done[trial])),
            ),
            last_s=dict.fromkeys(trials, self.costs.save_s + self.costs.transfer_s if is_end else 0.0),
        )

    def _visit_of_mean_s(self, *, evaluates: bool) -> float:
        numbers = self.data.numbers(validation=evaluates)
        whole = sum(self.data.part_of_iteration(number) for number in numbers)
        return max(_LEAST_S, self.costs.epoch_s * whole / len(numbers) + self.costs.startup_s)

    def _visit_s(self, unit: Unit, worker: WorkerId, expected_s: float) -> float:
        self.at[unit.trial] = self.nodes[worker]
        self.done[unit.trial] += 1
        return expected_s


@functools.lru_cache(maxsize=4096)
def overlapping_s(
    trials: int, epochs: int, workers: HopWorkers, data: DataTerms, costs: VisitCosts, *, loads: bool
) -> float | None:
    """What so many epochs of equal trials take, if no trial waits for the others. None: too many to simulate.

    Of many epochs the first ones are simulated, and the mean of later ones is taken for the rest.
    """
    most = MOST_UNITS // (trials * data.visits)
    if most < min(epochs, _LEAST_EPOCHS):
        return None
    some = min(epochs, most)
    total_s = _OverlappingEpochs(trials, workers, data, costs, loads=loads).go_through(some)
    if some == epochs:
        return total_s
    half_s = _OverlappingEpochs(trials, workers, data, costs, loads=loads).go_through(some // 2)
    return total_s + (epochs - some) * (total_s - half_s) / (some - some // 2)


class _OverlappingEpochs(_Rounds):
    """As the core does it: the visits that are left are planned again whenever a trial has trained on all
    partitions or has ended its epoch. `ended` are epochs, `seen` the partitions of the present one."""

    def __init__(
        self, trials: int, workers: HopWorkers, data: DataTerms, costs: VisitCosts, *, loads: bool
    ) -> None:
        super().__init__(trials, workers, data, costs)
        self.loads = loads
        self.epochs = 0
        self.ended = dict.fromkeys(self.trials, 0)
        self.seen: dict[TrialId, set[PartitionId]] = {trial: set() for trial in self.trials}
        self.ends: list[tuple[float, int, WorkerId, Unit]] = []
        self.begun = 0

    def go_through(self, epochs: int = 1) -> float:
        self.epochs, now_s = epochs, 0.0
        while any(ended < epochs for ended in self.ended.values()):
            now_s = self._until_one_moves_on(now_s)
        return now_s

    def _until_one_moves_on(self, now_s: float) -> float:
        data, self.rounds = self.data, self.rounds + 1
        rest = self._rest(now_s)
        state, goes_on = EpochState(rest, now_s=now_s), any(rest.later_s.values())
        scheduler = make_scheduler(data.scheduler, seed=self.rounds, hasty=True, goes_on=goes_on)
        while True:
            for each in scheduler.dispatch(state):
                self.begun += 1
                end_s = now_s + state.expected_s(each.unit, each.worker)
                state.handle(UnitStarted(at_s=now_s, unit=each.unit, worker=each.worker))
                heapq.heappush(self.ends, (end_s, self.begun, each.worker, each.unit))
            now_s, _, worker, unit = heapq.heappop(self.ends)
            state.handle(UnitEnded(at_s=now_s, worker=worker))
            self.at[unit.trial] = self.nodes[worker]
            seen = self.seen[unit.trial]
            seen.add(unit.partition)
            if len(seen) == data.visits:
                self.ended[unit.trial] += 1
                seen.clear()
            if len(seen) in (0, data.partitions):
                return now_s

    def _rest(self, now_s: float) -> Epoch:
        data, costs = self.data, self.costs
        trials = tuple(trial for trial, ended in self.ended.items() if ended < self.epochs)
        evaluates = {trial: len(self.seen[trial]) >= data.partitions for trial in trials}
        kinds = (False, True) if data.validation_rows else (False,)
        numbers = tuple(number for kind in kinds for number in data.numbers(validation=kind))
        visit_s = {kind: self._visit_of_mean_s(evaluates=kind) for kind in kinds}
        unit_s = {trial: visit_s[evaluates[trial]] for trial in trials}
        epoch_s = sum(len(data.numbers(validation=kind)) * visit_s[kind] for kind in kinds)
        last_s = costs.save_s + costs.transfer_s
        on_node = {node: worker for worker, node in self.nodes.items()}
        return Epoch(
            trials=trials,
            partitions=numbers,
            workers=tuple(
                HopWorker(id=worker, partitions=held, unit_s=unit_s, node=self.nodes[worker])
                for worker, held in self.layout.items()
            ),
            sizes={number: size for kind in kinds for number, size in data.sizes(validation=kind).items()},
            hops=Hops(
                seconds=dict.fromkeys(trials, costs.transfer_s),
                at={trial: on_node[self.at[trial]] for trial in trials if trial in self.at},
                new=frozenset(t for t in trials if not (self.loads or self.ended[t] or self.seen[t])),
            ),
            last_s={trial: last_s if evaluates[trial] is kinds[-1] else 0.0 for trial in trials},
            later_s={
                trial: (self.epochs - self.ended[trial] - 1) * epoch_s
                + (0.0 if evaluates[trial] else epoch_s - data.partitions * visit_s[False])
                for trial in trials
            },
            done=frozenset(
                Unit(trial, number)
                for trial in trials
                for number in numbers
                if number in self.seen[trial] or data.is_validation(number) is not evaluates[trial]
            ),
            underway=tuple(
                Underway(unit=unit, worker=worker, left_s=end_s - now_s)
                for end_s, _, worker, unit in self.ends
            ),
        )
