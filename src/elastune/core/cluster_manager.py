"""The cluster manager: from nodes wanted to nodes requested and released (RubberBand section 5)."""

from __future__ import annotations

from collections.abc import Iterator

from elastune.core import limits
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
"""In a row, while nothing trains: more than half a day. Then the run fails."""
MOST_REFUSALS_WHILE_PAYING = 12
"""The same while other nodes are idle and cost money: an hour and a half."""


def upcoming(state: State) -> Iterator[Upcoming]:
    """When refused nodes are requested again."""
    for timer, at_s in state.timers.items():
        if timer.startswith(RETRY):
            yield Upcoming(at_s=at_s, text="refused nodes are requested again")


def reconcile(step: Step) -> list[Vetoed]:
    """Request or release nodes until as many are coming as are wanted; returns what the limits refused."""
    state, vetoes = step.state, []
    for pool_state in state.pools.values():
        pool = pool_state.pool
        pool.wanted = 0 if state.shutdown or state.suspended else _wanted(state, pool)
        if pool.leaving or pool.coming > pool.wanted:
            _release_surplus(step, pool_state)
        if pool.coming < pool.wanted and (pool.retry_s is None or pool.retry_s <= state.now_s):
            pool.retry_s = None
            vetoes += _request(step, pool, pool.wanted - pool.coming)
    return vetoes


def _wanted(state: State, pool: PoolNodes) -> int:
    """What the policy wants; where data are partitioned, at least enough to hold them."""
    wanted, data = state.wishes.nodes.get(pool.number, 0), state.terms.data
    if data is None or not wanted:
        return wanted
    least = -(-data.least_workers // state.terms.cluster.slots_per_node)
    return max(wanted, min(least, state.terms.cluster.max_nodes))


def back_off(step: Step, pool: PoolNodes) -> None:
    """The provider has no nodes: request again later, at growing intervals."""
    wait = min(_LAST_RETRY_S, _FIRST_RETRY_S * 2 ** min(pool.refusals, _DOUBLINGS))
    pool.refusals += 1
    pool.retry_s = step.state.now_s + wait
    step.set_timer(f"{RETRY}{pool.number}", pool.retry_s)


def _request(step: Step, pool: PoolNodes, count: int) -> list[Vetoed]:
    state = step.state
    allowed, why = limits.allowed_nodes(state, count)
    if allowed:
        state.requests += 1
        pool.requested[state.requests] = pool.asked[state.requests] = allowed
        step.emit(RequestNodes(request=state.requests, count=allowed))
    if allowed == count or state.vetoed.get(pool.number) == (pool.wanted, pool.coming):
        return []
    state.vetoed[pool.number] = (pool.wanted, pool.coming)
    step.note("veto", f"{count - allowed} of {count} more nodes refused: {why}")
    return [Vetoed(at_s=state.now_s, pool=pool.number, wanted=pool.wanted, allowed=pool.coming, why=why)]


def _release_surplus(step: Step, pool_state: PoolState) -> None:
    """First nodes that are leaving, then those that still boot, then empty ones, oldest first."""
    pool = pool_state.pool
    if pool_state.hop_state.round is not None:  # it needs the data, and perhaps the models, of every node
        return
    surplus = max(0, pool.coming - pool.wanted)
    needed = {progress.at for progress in step.state.hop_progress.values() if progress.saving is not None}
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
    step.emit(ReleaseNodes(nodes=tuple(node.number for node in nodes)))


def forget(step: Step, pool_state: PoolState, number: NodeId) -> None:
    """Remove the node from the cluster. It must have no gangs."""
    state = step.state
    pool_state.changed = pool_state.hop_state.stale = True
    forget_node(state.hop_progress, state.held, number)
    node = pool_state.pool.nodes.pop(number)
    del state.where[number]
    pool_state.pool.ready -= node.ready_s is not None and not node.leaving
    pool_state.pool.leaving -= node.leaving
    pool_state.occupants.pop(number, None)
    if number in pool_state.free_slots:
        pool_state.free_slots.close(number)


def retire(pool_state: PoolState, node: Node) -> None:
    """The node gets no new gangs and is released when empty."""
    if node.leaving:
        return
    node.leaving = pool_state.changed = pool_state.hop_state.stale = True
    pool_state.pool.leaving += 1
    pool_state.pool.ready -= node.ready_s is not None
    if node.number in pool_state.free_slots:
        pool_state.free_slots.close(node.number)
