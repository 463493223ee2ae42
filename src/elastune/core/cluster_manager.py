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


def reconcile(step: Step) -> list[Vetoed]:
    """Bring what is coming in line with what is wanted; returns what the guards refused."""
    state = step.state
    vetoes = []
    for pool_state in state.pools.values():
        pool = pool_state.pool
        pool.wanted = 0 if state.shutdown or state.suspended else _wanted(state, pool)
        if pool.leaving or pool.coming > pool.wanted:
            _release_surplus(step, pool_state)
        if pool.coming < pool.wanted:
            if pool.retry_s is not None and state.now_s < pool.retry_s:
                continue
            pool.retry_s = None
            veto = _request(step, pool, pool.wanted - pool.coming)
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


def back_off(step: Step, pool: PoolNodes) -> None:
    """The provider has no node to give: ask again later, and ever less often."""
    wait = min(_LAST_RETRY_S, _FIRST_RETRY_S * 2 ** min(pool.refusals, _DOUBLINGS))
    pool.refusals += 1
    pool.retry_s = step.state.now_s + wait
    step.set_timer(f"{RETRY}{pool.number}", pool.retry_s)


def _request(step: Step, pool: PoolNodes, count: int) -> Vetoed | None:
    state = step.state
    allowed, why = guards.allowed_nodes(state, count)
    if allowed:
        state.requests += 1
        pool.requested[state.requests] = pool.asked[state.requests] = allowed
        step.tell(RequestNodes(request=state.requests, count=allowed))
    if allowed == count:
        return None
    veto = Vetoed(at_s=state.now_s, pool=pool.number, wanted=pool.wanted, allowed=pool.coming, why=why)
    if state.vetoed.get(pool.number) != (pool.wanted, pool.coming):
        state.vetoed[pool.number] = (pool.wanted, pool.coming)
        step.note("veto", f"{count - allowed} of {count} more nodes refused: {why}")
        return veto
    return None


def _release_surplus(step: Step, pool_state: PoolState) -> None:
    """Those that are leaving anyway go, then those that still boot, then empty ones, oldest first."""
    pool = pool_state.pool
    if (
        pool_state.hop_state.round is not None
    ):  # everybody has data, and perhaps a model, that this round needs
        return
    surplus = max(0, pool.coming - pool.wanted)
    needed = {tour.at for tour in step.state.tours.values() if tour.stowing is not None}
    empty = [
        node
        for node in pool.nodes.values()
        if not pool_state.occupants.get(node.number) and node.number not in needed
    ]
    gone = [node for node in empty if node.leaving]
    staying = sorted((node for node in empty if not node.leaving), key=lambda node: node.ready_s is not None)
    release(step, pool_state, gone + staying[:surplus])


def release(step: Step, pool_state: PoolState, nodes: list[Node]) -> None:
    if not nodes:
        return
    for node in nodes:
        forget(step, pool_state, node.number)
        step.state.ledger.end(node.number, step.state.now_s)
    step.tell(ReleaseNodes(nodes=tuple(node.number for node in nodes)))


def forget(step: Step, pool_state: PoolState, number: NodeId) -> None:
    """The node is no longer part of the cluster. Gangs on it must be gone."""
    pool_state.stirred = pool_state.hop_state.stale = True
    state = step.state
    if state.tours:
        forget_node(state.tours, (trial for trial in state.tours if trial not in state.held), number)
    node = pool_state.pool.nodes.pop(number)
    del step.state.where[number]
    pool_state.pool.ready -= node.ready_s is not None and not node.leaving
    pool_state.pool.leaving -= node.leaving
    pool_state.occupants.pop(number, None)
    if number in pool_state.free_slots:
        pool_state.free_slots.close(number)


def retire(pool_state: PoolState, node: Node) -> None:
    """The node takes nothing new and goes when it is empty."""
    if node.leaving:
        return
    node.leaving = pool_state.stirred = pool_state.hop_state.stale = True
    pool_state.pool.leaving += 1
    pool_state.pool.ready -= node.ready_s is not None
    if node.number in pool_state.free_slots:
        pool_state.free_slots.close(node.number)
