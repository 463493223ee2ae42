"""How long a round of equal trials takes: simulated with the layout and the scheduler of a run.

The open-shop bound of a round is reached if all units take equally long and every partition has one holder.
Replicas, workers beyond the partitions, evaluation after the last training visit, saves at the end of an
epoch and hops between nodes add to it, by amounts that depend on the layout. So rounds are simulated: one as
the first, whose models have no place yet, and one as all others, whose models are where the one before left
them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from elastune.hopping.epoch import Epoch, Hops, HopWorker, Unit, WorkerId
from elastune.hopping.layout import WorkerPlace, lay_out_all
from elastune.hopping.partitions import DataTerms
from elastune.hopping.schedulers import DEFAULT_SCHEDULER, make_scheduler
from elastune.hopping.simulation import simulate
from elastune.model.ids import TrialId

# Larger rounds are near their bound, and take a second to simulate.
MOST_UNITS = 1_500
_LEAST_S = 1e-9


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
        whole = sum(data.part_of_iteration(number) for number in numbers)
        pace_s = max(_LEAST_S, self.costs.epoch_s * whole / len(numbers) + self.costs.startup_s)
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

    def _visit_s(self, unit: Unit, worker: WorkerId, expected_s: float) -> float:
        self.at[unit.trial] = self.nodes[worker]
        self.done[unit.trial] += 1
        return expected_s
