"""Between nodes with names and slots, and the board on which placement works."""

from __future__ import annotations

from elastune.place.board import Seats, Task
from elastune.place.request import Gang, NodeId, Request, Slot, TrialId


def survey(request: Request, *, closing: int) -> Task:
    """The request as a task: locked gangs are out of play, gangs with a lost node are forgotten."""
    size, staying = request.cluster.slots_per_node, request.cluster.staying
    number = {node: i for i, node in enumerate(staying)}
    locked = _locked_gangs(request)
    free = [size] * len(staying)
    for gang in locked.values():
        for slot in gang:
            if slot.node in number:
                free[number[slot.node]] -= size if len(gang) > size else 1
    alive, before, held = request.alive, {}, {}
    for wish in request.wishes:
        if wish.trial not in locked and wish.trial in alive:
            gang = alive[wish.trial]
            nodes = {slot.node for slot in gang}
            before[wish.trial] = tuple(sorted(number[node] for node in nodes if node in number))
            if nodes <= number.keys():
                held[wish.trial] = len(gang)
    return Task(
        slots_per_node=size,
        open_slots=tuple(max(0, slots) for slots in free),
        targets={wish.trial: wish.slots for wish in request.wishes if wish.trial not in locked},
        before=before,
        held=held,
        closing=min(closing, free.count(size)),
    )


def gangs_of(request: Request, task: Task, seats: Seats) -> dict[TrialId, Gang]:
    """The slots of every gang. Who stays keeps its slots; who is resized in place keeps what it can."""
    size, staying = request.cluster.slots_per_node, request.cluster.staying
    gangs = _locked_gangs(request)
    gangs |= {
        trial: request.present[trial] for trial, at in task.kept.items() if set(seats[trial]) == set(at)
    }
    free = {node: set(range(size)) for node in staying}
    for gang in gangs.values():
        for slot in gang:
            if slot.node in free:
                free[slot.node].remove(slot.number)
    for trial, slots in task.targets.items():
        if trial not in gangs:
            own = set(request.present.get(trial, ()))
            taken: list[Slot] = []
            for node in sorted(seats[trial]):
                taken += _take(free[staying[node]], staying[node], min(size, slots - len(taken)), own)
            gangs[trial] = tuple(taken)
    return gangs


def _take(free: set[int], node: NodeId, count: int, own: set[Slot]) -> list[Slot]:
    """So many free slots of a node, those that the gang had first."""
    slots = sorted((Slot(node, number) for number in free), key=lambda slot: (slot not in own, slot.number))[
        :count
    ]
    free -= {slot.number for slot in slots}
    return sorted(slots)


def _locked_gangs(request: Request) -> dict[TrialId, Gang]:
    return {trial: gang for trial, gang in request.alive.items() if trial in request.locked}
