"""News of nodes, made part of the state: who belongs to the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from elastune.core import cluster_manager as manager
from elastune.core import gangs
from elastune.core import hop_rounds as stowing
from elastune.core import scheduling as seating
from elastune.core.commands import Ending, ReleaseNodes
from elastune.core.events import NodeFound, NodeNoticed, NodesGranted, NodesReady, NodesRefused
from elastune.core.nodes import Node
from elastune.core.policy import Upcoming
from elastune.core.shutdown import close
from elastune.core.state import State, Step
from elastune.model.ids import NodeId

BOOT = "boot:"


def upcoming(state: State) -> Iterator[Upcoming]:
    """When nodes that boot are given up."""
    boots = [at_s for timer, at_s in state.timers.items() if timer.startswith(BOOT)]
    if boots:
        yield Upcoming(at_s=min(boots), text="nodes that are not up by then are given back")


def granted(turn: Step, event: NodesGranted) -> None:
    state = turn.state
    room = next((room for room in state.rooms.values() if event.request in room.pool.requested), None)
    if room is None:  # an answer that nobody waits for
        for number in event.nodes:
            state.ledger.found(number, event.at_s, event.billed_s, event.usd_per_hour)
        turn.tell(ReleaseNodes(nodes=event.nodes))
        return
    _answered(state, event.request, len(event.nodes))
    for number in event.nodes:
        node = Node(number, room.pool.number, event.request, event.at_s - event.billed_s)
        room.pool.nodes[number] = state.where[number] = node
        state.ledger.grant(number, room.pool.number, event.at_s, event.billed_s, event.usd_per_hour)
    if state.ended is not None:
        manager.release(turn, room, [state.where[number] for number in event.nodes])
    else:
        turn.set_timer(f"{BOOT}{event.request}", event.at_s + state.terms.boot_patience_s)


def refused(turn: Step, event: NodesRefused) -> None:
    state = turn.state
    state.refused[event.request] = state.refused.get(event.request, 0) + event.count
    for room in state.rooms.values():
        if event.request in room.pool.requested and state.ended is None:
            manager.back_off(turn, room.pool)
    _answered(state, event.request, event.count)
    starving = [room.pool for room in state.rooms.values() if room.pool.coming < room.pool.wanted]
    patience = manager.MOST_REFUSALS_WHILE_PAYING if state.where else manager.MOST_REFUSALS
    if not state.held and starving and min(pool.refusals for pool in starving) > patience:
        turn.note("nodes", f"no node can be had: {event.reason}")
        close(turn, Ending.FAILED)


def ready(turn: Step, event: NodesReady) -> None:
    state = turn.state
    hosts = event.hosts or ((),) * len(event.nodes)
    for number, names in zip(event.nodes, hosts, strict=True):
        node = state.where.get(number)
        if node is None or node.ready_s is not None:
            continue
        room = state.rooms[node.pool]
        node.ready_s, node.hosts = event.at_s, names
        state.ledger.ready(number, event.at_s)
        state.experience.boot.add(event.at_s - node.born_s)
        room.pool.refusals = 0
        room.occupants[number] = {}
        if not node.leaving:
            room.board.open(number)
            room.pool.ready += 1
        room.stirred = room.hall.stale = True
        others = room.pool.nodes.values()
        if all(other.ready_s is not None for other in others if other.request == node.request):
            turn.cancel_timer(f"{BOOT}{node.request}")


def noticed(turn: Step, event: NodeNoticed) -> None:
    """Whatever runs on the node saves while it can."""
    state = turn.state
    node = state.where.get(event.node)
    if node is None:
        return
    room = state.rooms[node.pool]
    node.until_s = event.until_s
    manager.retire(room, node)
    for trial in [state.trials[number] for number in room.occupants.get(node.number, ())]:
        gangs.revoke(turn, trial, resizing=True)
        if trial.activity is None:
            seating.wait_again(turn, trial)
    stowing.stow(turn, node.number)


def lost(turn: Step, number: NodeId, billed_s: float | None) -> None:
    state = turn.state
    node = state.where.get(number)
    if node is None:
        return
    room = state.rooms[node.pool]
    if node.ready_s is None and not node.leaving and state.ended is None:
        manager.back_off(turn, room.pool)  # who dies young may do so again and again
    for trial in [state.trials[number] for number in room.occupants.get(node.number, ())]:
        trial.lost += 1
        gangs.dissolve(turn, trial)
        seating.wait_again(turn, trial)
    manager.forget(turn, room, node.number)
    state.ledger.end(node.number, state.now_s, lost=True, billed_s=billed_s)


def found(turn: Step, event: NodeFound) -> None:
    """Nobody holds it and it costs money: it goes."""
    turn.state.ledger.found(event.node, event.at_s, event.billed_s, event.usd_per_hour)
    turn.tell(ReleaseNodes(nodes=(event.node,)))


def give_up_booting(turn: Step, request: int) -> None:
    for room in turn.state.rooms.values():
        late = [n for n in room.pool.nodes.values() if n.request == request and n.ready_s is None]
        if late:
            turn.note("boot", f"{', '.join(n.number for n in late)} did not come up in time; given back")
            manager.release(turn, room, late)


def _answered(state: State, request: int, count: int) -> None:
    for room in state.rooms.values():
        left = room.pool.requested.get(request)
        if left is not None and left <= count:
            del room.pool.requested[request], room.pool.asked[request]
        elif left is not None:
            room.pool.requested[request] = left - count
