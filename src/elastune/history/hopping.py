"""Model hopping measured from the history of a run: rounds, utilisation, bytes moved.

A journal has visits, not rounds. A *tour* is all visits of one trial in one iteration. A round has at most
one tour per trial; the next begins when all of its tours have ended. If several pools (brackets) hop at the
same time, their rounds are separated by nodes: no trial and no request belongs to two pools.

The lower bound is the open shop's (Cerebro section 5.1) with the measured visit times: a round takes at least
as long as its busiest worker and its longest trial. Evaluation begins after all training, so the two bounds
add up. Bytes moved are compared with k m p |S| + m |S| of Cerebro's table 2, where every visit is a hop and
every model is fetched once; p includes the partitions of the validation data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from elastune.core.terms import RunTerms
from elastune.core.trials import Activity
from elastune.history.gangs import GangLife, VisitLife
from elastune.history.nodes import NodeLife
from elastune.history.recorder import History, history_of
from elastune.history.trials import HistoryTerms
from elastune.journal.records import Entry
from elastune.model.ids import NodeId, Slot, TrialId


@dataclass(slots=True)
class EpochTour:
    """The visits of one trial in one iteration, including repeated ones; or a gang that trains together."""

    trial: TrialId
    iteration: int
    gangs: list[GangLife] = field(default_factory=list)

    @property
    def from_s(self) -> float:
        return self.gangs[0].from_s

    @property
    def until_s(self) -> float:
        return max(gang.until_s for gang in self.gangs)

    @property
    def is_together(self) -> bool:
        return self.gangs[0].is_together


@dataclass(slots=True)
class EpochGroup:
    """The tours of one round, and all nodes of their pool."""

    tours: list[EpochTour]
    nodes: frozenset[NodeId]

    @property
    def from_s(self) -> float:
        return self.tours[0].from_s

    @property
    def until_s(self) -> float:
        return max(tour.until_s for tour in self.tours)


def groups_of(history: History) -> list[EpochGroup]:
    """All rounds by start time. A gang of all workers is one round, unless cancelled before it began."""
    hopping = [
        gang
        for gang in history.gangs
        if gang.visit is not None or (gang.is_together and gang.until_s > gang.from_s)
    ]
    groups = [group for pool in _pools(history, hopping) for group in _rounds(*pool)]
    return sorted(groups, key=lambda group: group.from_s)


def _pools(history: History, gangs: Sequence[GangLife]) -> list[tuple[list[GangLife], frozenset[NodeId]]]:
    """Gangs that share trials, nodes or requests, directly or indirectly, and the nodes of each pool.

    Only barriers name their pool. If all name the first, there is no other, or it has just begun.
    """
    if not any(stage.pool for stage in history.stages):
        return [(list(gangs), frozenset(life.node for life in history.nodes))]
    parent: dict[object, object] = {}

    def root(key: object) -> object:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for life in history.nodes:
        if life.request is not None:
            parent[root(life.node)] = root(("request", life.request))
    for gang in gangs:
        for slot in gang.gang:
            parent[root(slot.node)] = root(gang.trial)
    pools: dict[object, list[GangLife]] = {}
    nodes: dict[object, set[NodeId]] = {}
    for gang in gangs:
        pools.setdefault(root(gang.trial), []).append(gang)
    for life in history.nodes:
        nodes.setdefault(root(life.node), set()).add(life.node)
    return [(members, frozenset(nodes.get(key, ()))) for key, members in pools.items()]


def _rounds(gangs: Sequence[GangLife], nodes: frozenset[NodeId]) -> list[EpochGroup]:
    tours = _tours(gangs)
    groups: list[EpochGroup] = []
    for index, tour in enumerate(tours):
        if groups and not _is_new(groups[-1], tours[index:]):
            groups[-1].tours.append(tour)
        else:
            groups.append(EpochGroup([tour], nodes))
    return groups


def _tours(gangs: Sequence[GangLife]) -> list[EpochTour]:
    tours: dict[tuple[TrialId, int, int], EpochTour] = {}
    for gang in gangs:
        iteration = gang.first_iteration if gang.visit is None else gang.visit.iteration
        key = (gang.trial, iteration, gang.generation if gang.is_together else 0)
        tours.setdefault(key, EpochTour(gang.trial, iteration)).gangs.append(gang)
    return sorted(tours.values(), key=lambda tour: tour.from_s)


def _is_new(group: EpochGroup, ahead: Sequence[EpochTour]) -> bool:
    """Whether the first of the tours ahead begins another round.

    Not while tours of the round are running. If all have ended, it may be a tour that had to wait, as always
    on a single worker, unless its trial or iteration contradicts that.
    """
    first = ahead[0]
    trials = {tour.trial for tour in group.tours}
    if first.trial in trials or first.is_together or group.tours[0].is_together:
        return True
    if first.from_s < group.until_s:
        return False
    iterations = {tour.iteration for tour in group.tours}
    beside = [tour for tour in ahead if tour.from_s < first.until_s]
    return any(tour.trial in trials or tour.iteration not in iterations for tour in beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFigures:
    """One epoch of several trials, or one trial on all workers for a time (`together`)."""

    manner: str  # `hopping` or `together`
    trials: int
    first_iteration: int
    last_iteration: int
    began_s: float
    seconds: float
    workers: int  # workers that trained
    visits: int
    evaluations: int  # evaluation visits, included in `visits`
    repeated: int  # visits repeated after a lost worker or a crash
    training_s: float
    occupied_s: float  # training plus model transfer, data reading and saving
    up_s: float  # summed over all workers that were up
    bound_s: float | None  # lower bound for any schedule of these visits; None: unknown

    @property
    def utilisation(self) -> float | None:
        return self.training_s / self.up_s if self.up_s > 0.0 else None

    @property
    def gap(self) -> float | None:
        """The time above the lower bound, as a fraction of it."""
        return self.seconds / self.bound_s - 1.0 if self.bound_s else None

    def to_dict(self) -> dict[str, object]:
        return {**_in_seconds(asdict(self)), "utilisation": self.utilisation, "gap": self.gap}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoppingFigures:
    rounds: tuple[RoundFigures, ...]
    partitions: int
    validation_partitions: int
    visits: int
    evaluations: int
    repeated: int
    hops: int
    moved_bytes: int | None  # None: model sizes are unknown, as in a simulation
    formula_bytes: int | None
    loads: int  # visits that first read their partition
    load_s: float
    training_s: float
    occupied_s: float
    up_s: float

    @property
    def utilisation(self) -> float | None:
        """The fraction of the workers' up time in which they trained or evaluated."""
        return self.training_s / self.up_s if self.up_s > 0.0 else None

    @property
    def gap(self) -> float | None:
        """Over all rounds whose lower bound is known."""
        known = [(each.seconds, each.bound_s) for each in self.rounds if each.bound_s]
        return (
            sum(seconds for seconds, _ in known) / sum(bound for _, bound in known) - 1.0 if known else None
        )

    def to_dict(self) -> dict[str, object]:
        data = {**asdict(self), "rounds": [each.to_dict() for each in self.rounds]}
        return {**_in_seconds(data), "utilisation": self.utilisation, "gap": self.gap}


def recall_hopping(entries: Iterable[Entry], terms: RunTerms) -> HoppingFigures | None:
    """Reads the journal of a run only if its models can hop."""
    if terms.data is None:
        return None
    return hopping_of(history_of(entries, HistoryTerms.of(terms)), terms.cluster.slots_per_node)


def hopping_of(history: History, slots_per_node: int) -> HoppingFigures | None:
    """None: no model hopped."""
    groups = groups_of(history)
    if not groups:
        return None
    is_over = history.ending is not None
    rounds = []
    for number, group in enumerate(groups):
        lives = [life for life in history.nodes if life.node in group.nodes]
        is_last = number == len(groups) - 1 or group.until_s >= history.end_s
        up_s = _up_s(lives, group.from_s, group.until_s, history.end_s) * slots_per_node
        rounds.append(_round(group, up_s, is_through=is_over or not is_last))
    by_trial = _ended_visits([gang for group in groups for tour in group.tours for gang in tour.gangs])
    visits = [visit for _, visit in by_trial]
    known = any(visit.model_bytes for visit in visits)
    return HoppingFigures(
        rounds=tuple(rounds),
        partitions=max((visit.of for visit in visits), default=0) - _validation(visits),
        validation_partitions=_validation(visits),
        visits=len(visits),
        evaluations=sum(visit.evaluates for visit in visits),
        repeated=sum(each.repeated for each in rounds),
        hops=sum(visit.hopped for visit in visits),
        moved_bytes=sum(visit.model_bytes for visit in visits if visit.hopped) if known else None,
        formula_bytes=_formula_bytes(by_trial) if known else None,
        loads=sum(visit.load_s > 0.0 for visit in visits),
        load_s=sum(visit.load_s for visit in visits),
        training_s=sum(each.training_s for each in rounds),
        occupied_s=sum(each.occupied_s for each in rounds),
        up_s=_up_s(history.nodes, 0.0, history.end_s, history.end_s) * slots_per_node,
    )


def _round(group: EpochGroup, up_s: float, *, is_through: bool) -> RoundFigures:
    gangs = [gang for tour in group.tours for gang in tour.gangs]
    begun = [(gang.trial, gang.visit) for gang in gangs if gang.visit is not None]
    units = {(trial, visit.iteration, visit.partition) for trial, visit in begun}
    visits = [visit for _, visit in _ended_visits(gangs)]
    repeated = len(begun) - len(units)
    together = group.tours[0].is_together
    last = max(tour.iteration for tour in group.tours)
    if together:
        last += max(0, gangs[0].rows - 1)
    is_whole = is_through and not together and not repeated and len(visits) == len(begun)
    return RoundFigures(
        manner="together" if together else "hopping",
        trials=len({tour.trial for tour in group.tours}),
        first_iteration=min(tour.iteration for tour in group.tours),
        last_iteration=last,
        began_s=group.from_s,
        seconds=group.until_s - group.from_s,
        workers=len({slot for gang in gangs for slot in gang.gang}),
        visits=len(visits),
        evaluations=sum(visit.evaluates for visit in visits),
        repeated=repeated,
        training_s=sum(_training_s(gang) for gang in gangs),
        occupied_s=sum(len(gang.gang) * (gang.until_s - gang.from_s) for gang in gangs),
        up_s=up_s,
        bound_s=_bound_s(gangs) if is_whole else None,
    )


def _ended_visits(gangs: Sequence[GangLife]) -> list[tuple[TrialId, VisitLife]]:
    return [(gang.trial, gang.visit) for gang in gangs if gang.visit is not None and gang.end == "visited"]


def _training_s(gang: GangLife) -> float:
    """The whole time of a running visit; a lost visit trained for 0 s."""
    if gang.visit is not None and gang.end is not None:
        return gang.visit.seconds
    spans = (span for span in gang.spans if span.activity is Activity.TRAINING)
    return len(gang.gang) * sum(span.until_s - span.from_s for span in spans)


def _bound_s(gangs: Sequence[GangLife]) -> float:
    return sum(
        _phase_bound_s([gang for gang in gangs if gang.visit is not None and gang.visit.evaluates is phase])
        for phase in (False, True)
    )


def _phase_bound_s(gangs: Sequence[GangLife]) -> float:
    """With replicas a visit could have been made on another worker; then only the mean load is certain."""
    trials: dict[TrialId, float] = defaultdict(float)
    workers: dict[Slot, float] = defaultdict(float)
    holders: dict[int, set[Slot]] = defaultdict(set)
    for gang in gangs:
        seconds = gang.until_s - gang.from_s
        trials[gang.trial] += seconds
        workers[gang.gang[0]] += seconds
        if gang.visit is not None:
            holders[gang.visit.partition].add(gang.gang[0])
    if not workers:
        return 0.0
    has_choice = any(len(slots) > 1 for slots in holders.values())
    busiest = sum(workers.values()) / len(workers) if has_choice else max(workers.values())
    return max(busiest, *trials.values())


def _validation(visits: Sequence[VisitLife]) -> int:
    """Partitions of the validation data are numbered after the others."""
    first = min((visit.partition for visit in visits if visit.evaluates), default=None)
    return 0 if first is None else max(visit.of for visit in visits) - first


def _formula_bytes(visits: Sequence[tuple[TrialId, VisitLife]]) -> int:
    each = {(trial, visit.iteration, visit.partition): visit.model_bytes for trial, visit in visits}
    models = {trial: visit.model_bytes for trial, visit in visits}
    return sum(each.values()) + sum(models.values())


def _up_s(lives: Sequence[NodeLife], from_s: float, until_s: float, end_s: float) -> float:
    """Up time in this interval, summed over the nodes."""
    return sum(
        max(0.0, min(until_s, life.until_s(end_s)) - max(from_s, life.ready_s))
        for life in lives
        if life.ready_s is not None
    )


def _in_seconds(data: dict[str, object]) -> dict[str, object]:
    """Keys as in all other results: `x_s` becomes `x_seconds`."""
    return {
        f"{name.removesuffix('_s')}_seconds" if name.endswith("_s") else name: value
        for name, value in data.items()
    }
