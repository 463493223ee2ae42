"""The cluster manager: from nodes wanted to nodes asked for and nodes given back (RubberBand section 5)."""

from __future__ import annotations

from collections.abc import Iterator

from elastune.core import limits as guards
from elastune.core.commands import ReleaseNodes, RequestNodes
from elastune.core.hop_state import forget_node
from elastune.core.nodes import Node, PoolNodes
from elastune.core.policy import Upcoming, Vetoed
from elastune.core.state import PoolState, State, Step
from elastune.model.ids import NodeId

RETRY = "nodes:"
_FIRST_RETRY_S = 30.0
_LAST_RETRY_S = 600.0
_DOUBLINGS = 5
MOST_REFUSALS = 100
"""In a row, while nothing trains: more than half a day. Then nobody believes that a node will come."""
MOST_REFUSALS_WHILE_PAYING = 12
"""The same while other nodes are idle and cost money: an hour and a half."""


def upcoming(state: State) -> Iterator[Upcoming]:
    """When nodes that were refused are asked for again."""
    for timer, at_s in state.timers.items():
        if timer.startswith(RETRY):
            yield Upcoming(at_s=at_s, text="more nodes are asked for once more")


def reconcile(turn: Step) -> list[Vetoed]:
    """Bring what is coming in line with what is wanted; returns what the guards refused."""
    state = turn.state
    vetoes = []
    for room in state.rooms.values():
        pool = room.pool
        pool.wanted = 0 if state.closing or state.resting else _wanted(state, pool)
        if pool.leaving or pool.coming > pool.wanted:
            _release_surplus(turn, room)
        if pool.coming < pool.wanted:
            if pool.retry_s is not None and state.now_s < pool.retry_s:
                continue
            pool.retry_s = None
            veto = _request(turn, pool, pool.wanted - pool.coming)
            if veto is not None:
                vetoes.append(veto)
    return vetoes


def _wanted(state: State, pool: PoolNodes) -> int:
    """What the policy wants; where data are partitioned, at least as many as hold them."""
    wanted, data = state.wishes.nodes.get(pool.number, 0), state.terms.data
    if data is None or not wanted:
        return wanted
    least = -(-data.least_workers // state.terms.cluster.slots_per_node)
    return max(wanted, min(least, state.terms.cluster.max_nodes))


def back_off(turn: Step, pool: PoolNodes) -> None:
    """The provider has no node to give: ask again later, and ever less often."""
    wait = min(_LAST_RETRY_S, _FIRST_RETRY_S * 2 ** min(pool.refusals, _DOUBLINGS))
    pool.refusals += 1
    pool.retry_s = turn.state.now_s + wait
    turn.set_timer(f"{RETRY}{pool.number}", pool.retry_s)


def _request(turn: Step, pool: PoolNodes, count: int) -> Vetoed | None:
    state = turn.state
    allowed, why = guards.allowed_nodes(state, count)
    if allowed:
        state.requests += 1
        pool.requested[state.requests] = pool.asked[state.requests] = allowed
        turn.tell(RequestNodes(request=state.requests, count=allowed))
    if allowed == count:
        return None
    veto = Vetoed(at_s=state.now_s, pool=pool.number, wanted=pool.wanted, allowed=pool.coming, why=why)
    if state.vetoed.get(pool.number) != (pool.wanted, pool.coming):
        state.vetoed[pool.number] = (pool.wanted, pool.coming)
        turn.note("veto", f"{count - allowed} of {count} more nodes refused: {why}")
        return veto
    return None


def _release_surplus(turn: Step, room: PoolState) -> None:
    """Those that are leaving anyway go, then those that still boot, then empty ones, oldest first."""
    pool = room.pool
    if room.hall.round is not None:  # everybody has data, and perhaps a model, that this round needs
        return
    surplus = max(0, pool.coming - pool.wanted)
    needed = {tour.at for tour in turn.state.tours.values() if tour.stowing is not None}
    empty = [
        node
        for node in pool.nodes.values()
        if not room.occupants.get(node.number) and node.number not in needed
    ]
    gone = [node for node in empty if node.leaving]
    staying = sorted((node for node in empty if not node.leaving), key=lambda node: node.ready_s is not None)
    release(turn, room, gone + staying[:surplus])


def release(turn: Step, room: PoolState, nodes: list[Node]) -> None:
    if not nodes:
        return
    for node in nodes:
        forget(turn, room, node.number)
        turn.state.ledger.end(node.number, turn.state.now_s)
    turn.tell(ReleaseNodes(nodes=tuple(node.number for node in nodes)))


def forget(turn: Step, room: PoolState, number: NodeId) -> None:
    """The node is no longer part of the cluster. Gangs on it must be gone."""
    room.stirred = room.hall.stale = True
    state = turn.state
    if state.tours:
        forget_node(state.tours, (trial for trial in state.tours if trial not in state.held), number)
    node = room.pool.nodes.pop(number)
    del turn.state.where[number]
    room.pool.ready -= node.ready_s is not None and not node.leaving
    room.pool.leaving -= node.leaving
    room.occupants.pop(number, None)
    if number in room.board:
        room.board.close(number)


def retire(room: PoolState, node: Node) -> None:
    """The node takes nothing new and goes when it is empty."""
    if node.leaving:
        return
    node.leaving = room.stirred = room.hall.stale = True
    room.pool.leaving += 1
    room.pool.ready -= node.ready_s is not None
    if node.number in room.board:
        room.board.close(node.number)
