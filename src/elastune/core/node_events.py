"""Applies the events of nodes: which nodes belong to the cluster, and what their loss takes with it."""

from __future__ import annotations

from collections.abc import Iterator

from elastune.core import cluster_manager, gangs, hop_rounds, scheduling
from elastune.core.commands import Ending, ReleaseNodes
from elastune.core.events import NodeFound, NodeNoticed, NodesGranted, NodesReady, NodesRefused
from elastune.core.nodes import Node
from elastune.core.policy import Upcoming
from elastune.core.shutdown import close
from elastune.core.state import State, Step
from elastune.model.ids import NodeId

BOOT = "boot:"
_MOST_DOUBLINGS = 5


def upcoming(state: State) -> Iterator[Upcoming]:
    """When nodes that still boot are released."""
    boots = [at_s for timer, at_s in state.timers.items() if timer.startswith(BOOT)]
    if boots:
        yield Upcoming(at_s=min(boots), text="nodes that are not up by then are released")


def granted(step: Step, event: NodesGranted) -> None:
    state = step.state
    pool_state = next((each for each in state.pools.values() if event.request in each.pool.requested), None)
    if pool_state is None:  # the request is no longer open
        for number in event.nodes:
            state.ledger.found(number, event.at_s, event.billed_s, event.usd_per_hour)
        step.emit(ReleaseNodes(nodes=event.nodes))
        return
    _answered(state, event.request, len(event.nodes))
    for number in event.nodes:
        node = Node(number, pool_state.pool.number, event.request, event.at_s - event.billed_s)
        pool_state.pool.nodes[number] = state.where[number] = node
        state.ledger.grant(number, pool_state.pool.number, event.at_s, event.billed_s, event.usd_per_hour)
    if state.ended is not None:
        cluster_manager.release(step, pool_state, [state.where[number] for number in event.nodes])
    else:
        # On a machine that is busy all boots take longer; each one begun anew would be given up again.
        doubled = 2 ** min(pool_state.pool.late_boots, _MOST_DOUBLINGS)
        step.set_timer(f"{BOOT}{event.request}", event.at_s + doubled * state.terms.boot_patience_s)


def refused(step: Step, event: NodesRefused) -> None:
    state = step.state
    state.refused[event.request] = state.refused.get(event.request, 0) + event.count
    for pool_state in state.pools.values():
        if event.request in pool_state.pool.requested and state.ended is None:
            cluster_manager.back_off(step, pool_state.pool)
    _answered(state, event.request, event.count)
    starving = [each.pool for each in state.pools.values() if each.pool.coming < each.pool.wanted]
    patience = cluster_manager.MOST_REFUSALS_WHILE_PAYING if state.where else cluster_manager.MOST_REFUSALS
    if not state.held and starving and min(pool.refusals for pool in starving) > patience:
        state.cause = f"no node can be had: {event.reason}"
        step.note("nodes", state.cause)
        close(step, Ending.FAILED)


def ready(step: Step, event: NodesReady) -> None:
    state = step.state
    hosts = event.hosts or ((),) * len(event.nodes)
    for number, names in zip(event.nodes, hosts, strict=True):
        node = state.where.get(number)
        if node is None or node.ready_s is not None:
            continue
        pool_state = state.pools[node.pool]
        node.ready_s, node.hosts = event.at_s, names
        state.ledger.ready(number, event.at_s)
        state.observed_speed.boot.add(event.at_s - node.born_s)
        pool_state.pool.refusals = pool_state.pool.late_boots = 0
        pool_state.occupants[number] = {}
        if not node.leaving:
            pool_state.free_slots.open(number)
            pool_state.pool.ready += 1
        pool_state.changed = pool_state.hop_state.stale = True
        others = pool_state.pool.nodes.values()
        if all(other.ready_s is not None for other in others if other.request == node.request):
            step.cancel_timer(f"{BOOT}{node.request}")


def noticed(step: Step, event: NodeNoticed) -> None:
    """What runs on the node saves while there is time."""
    state = step.state
    node = state.where.get(event.node)
    if node is None:
        return
    pool_state = state.pools[node.pool]
    node.until_s = event.until_s
    cluster_manager.retire(pool_state, node)
    for trial in [state.trials[number] for number in pool_state.occupants.get(node.number, ())]:
        gangs.revoke(step, trial, resizing=True)
        if trial.activity is None:
            scheduling.wait_again(step, trial)
    hop_rounds.save_models(step, node.number)


def lost(step: Step, number: NodeId, billed_s: float | None) -> None:
    state = step.state
    node = state.where.get(number)
    if node is None:
        return
    pool_state = state.pools[node.pool]
    if node.ready_s is None and not node.leaving and state.ended is None:
        cluster_manager.back_off(step, pool_state.pool)  # nodes that fail while booting may do so repeatedly
    for trial in [state.trials[number] for number in pool_state.occupants.get(node.number, ())]:
        trial.lost += 1
        gangs.dissolve(step, trial)
        scheduling.wait_again(step, trial)
    cluster_manager.forget(step, pool_state, node.number)
    state.ledger.end(node.number, state.now_s, lost=True, billed_s=billed_s)


def found(step: Step, event: NodeFound) -> None:
    """The run does not use the node and pays for it: release it."""
    step.state.ledger.found(event.node, event.at_s, event.billed_s, event.usd_per_hour)
    step.emit(ReleaseNodes(nodes=(event.node,)))


def give_up_booting(step: Step, request: int) -> None:
    for pool_state in step.state.pools.values():
        late = [n for n in pool_state.pool.nodes.values() if n.request == request and n.ready_s is None]
        if late:
            step.note("boot", f"{', '.join(n.number for n in late)} did not come up in time; given back")
            pool_state.pool.late_boots += not pool_state.pool.ready
            cluster_manager.release(step, pool_state, late)


def _answered(state: State, request: int, count: int) -> None:
    for pool_state in state.pools.values():
        left = pool_state.pool.requested.get(request)
        if left is not None and left <= count:
            del pool_state.pool.requested[request], pool_state.pool.asked[request]
        elif left is not None:
            pool_state.pool.requested[request] = left - count
