"""Where models hop: the workers of a pool, the data that each holds, and whether they train as one gang."""

from __future__ import annotations

from elastune.core.state import Pools, State
from elastune.core.tours import worker_id
from elastune.core.turn import Turn
from elastune.hopper import Manner, PartitionId, choose_manner, measured_speedup
from elastune.hopper.layout import Place, lay_out
from elastune.hopper.terms import DataTerms
from elastune.place import Gang, Slot


def workers_of(state: State, room: Pools) -> tuple[Slot, ...]:
    """Every slot of the nodes that stay, oldest node first."""
    nodes = (
        node.number for node in room.pool.nodes.values() if node.ready_s is not None and not node.leaving
    )
    return tuple(Slot(node, n) for node in nodes for n in range(state.terms.cluster.slots_per_node))


def lay_out_data(turn: Turn, room: Pools, workers: tuple[Slot, ...]) -> None:
    data, hall = turn.state.data, room.hall
    if workers == hall.roster and hall.layout:
        return
    nodes = turn.state.where
    places = [Place(worker_id(slot), slot.node, nodes[slot.node].hosts) for slot in workers]
    before = hall.layout
    layout = {place.worker: frozenset[PartitionId]() for place in places}
    for validation in (False, True):
        sizes = data.sizes(validation=validation)
        most = None if validation else data.most_per_worker
        some = lay_out(
            places, sizes, replicas=data.replicas, before=before, hosts=dict(data.hosts), most=most
        )
        layout = {worker: layout[worker] | held for worker, held in some.items()}
    moved = sum(len(held - before.get(worker, frozenset())) for worker, held in layout.items())
    if before and moved:
        turn.note("data", f"{len(workers)} workers now: {moved} partitions are loaded where they were not")
    hall.layout, hall.roster = layout, workers
    held = frozenset[PartitionId]().union(*layout.values())
    missing = [
        n for validation in (False, True) for n in data.numbers(validation=validation) if n not in held
    ]
    is_whole = not room.pool.outstanding and room.pool.ready == room.pool.staying
    if missing and workers and is_whole:
        few, hosts = len(workers) < data.least_workers, _wanted_hosts(data, missing[0])
        turn.state.unreachable = (
            f"the data need {data.least_workers} workers to hold them, and there are {len(workers)}"
            if few
            else f"partition {missing[0]} is on none of the machines that are there{hosts}"
        )


def _wanted_hosts(data: DataTerms, partition: int) -> str:
    hosts = dict(data.hosts).get(partition, frozenset())
    return f"; data.hosts has it on {', '.join(sorted(hosts))}" if hosts else ""


def gang_of_all(state: State, room: Pools, workers: tuple[Slot, ...], trials: int) -> Gang | None:
    """The gang of all workers, if that is how so few trials train best; None: they hop."""
    data, terms = state.data, state.terms
    if not workers or any(len(room.hall.layout.get(worker_id(slot), ())) == 0 for slot in workers):
        return None
    manner = choose_manner(
        trials,
        len(workers),
        data.partitions,
        measured_speedup(terms.profile.speedup, len(workers)),
        replicas=data.replicas,
        most_slots=terms.gangs.max_slots,
    )
    is_faster = manner is Manner.TOGETHER if state.wishes.together is None else state.wishes.together
    held = [room.hall.layout[worker_id(slot)] for slot in workers]
    # All have to take as many steps: they add up their gradients in each.
    shapes = {(len(each), sum(number < data.partitions for number in each)) for each in held}
    even = data.replicas == 1 and len(shapes) == 1
    return workers if is_faster and even and len(workers) > 1 else None
