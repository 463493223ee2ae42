"""From wishes to gangs: which trials start, go on or give way, and on which slots.

Steady wishes leave gangs where they are and fill free slots by best fit; that is cheap, and RubberBand and
ASHA need no more. Other wishes go through the placement controller, which may move and shrink gangs. Its
answer stays in `targets` until the gangs have moved: a gang saves, leaves, and starts again when its new
slots are free.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from elastune.core import cluster_manager, gangs, hopping, limits
from elastune.core.state import PoolState, State, Step
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Wish, Wishes
from elastune.model.ids import Gang, TrialId
from elastune.placement.controller import pack, place
from elastune.placement.request import PlacementNodes, PlacementRequest, SlotWish


def adopt(step: Step, wishes: Wishes) -> None:
    """New wishes replace the old ones."""
    state = step.state
    before, was_steady = state.wished, state.wishes.steady
    if state.terms.data is not None:  # no placement: models go where the data are
        wishes = replace(wishes, steady=True)
    state.wishes = wishes
    state.wished = {wish.trial: wish for wish in wishes.trials}
    for number in wishes.nodes:
        state.pool_state(number)
    for pool_state in state.pools.values():
        pool_state.queue, pool_state.targets, pool_state.changed = deque(), None, True
    hopping.leave_out(step)
    for wish in wishes.trials:
        trial = state.trial(wish.trial)
        if state.terms.data is None and trial.activity is None and limits.is_open(state, trial, wish):
            state.pool_state(wish.pool).queue.append(wish.trial)
    if wishes.steady:
        for number in tuple(state.held):
            if not was_steady or state.wished.get(number) is not before.get(number):
                settle(step, state.trials[number])


def settle(step: Step, trial: Trial) -> None:
    """Bring a trial's gang in line with its wish."""
    state = step.state
    wish = state.wished.get(trial.number)
    if trial.activity is None or trial.activity is Activity.SAVING:
        return
    if trial.visit is not None:
        hopping.settle_hops(step, trial)
    elif wish is None or state.shutdown or not limits.is_open(state, trial, wish):
        gangs.revoke(step, trial)
    elif state.suspended or not _is_in_place(state, trial, wish):
        give_way(step, trial)
    elif (
        trial.activity is Activity.WAITING
        or trial.revoked
        or trial.lease is None
        or trial.lease.until_iteration != wish.until_iteration
    ):
        gangs.lend(step, trial, wish)


def give_way(step: Step, trial: Trial) -> None:
    """The gang leaves its slots and is to start again on others."""
    gangs.revoke(step, trial, resizing=True)
    if trial.number not in step.state.held and step.state.wishes.steady:
        wait_again(step, trial)  # it was starting and had nothing to save


def fill(step: Step) -> None:
    """Give free slots to the waiting trials, best first."""
    state = step.state
    if state.shutdown or state.suspended:
        return
    for pool_state in state.pools.values():
        if state.terms.data is not None:
            hopping.fill_hops(step, pool_state)
        elif not state.wishes.steady:
            if pool_state.changed:
                pool_state.changed = False
                _rearrange(step, pool_state)
        elif pool_state.queue:
            _fill_steadily(step, pool_state)


def wait_again(step: Step, trial: Trial) -> None:
    """The trial lost its gang. If it is still wished for, it goes to the head of the queue."""
    wish = step.state.wished.get(trial.number)
    if step.state.terms.data is None and wish is not None and limits.is_open(step.state, trial, wish):
        step.state.pools[wish.pool].queue.appendleft(trial.number)


def _fill_steadily(step: Step, pool_state: PoolState) -> None:
    state = step.state
    at_once = state.wishes.at_once.get(pool_state.pool.number)
    while pool_state.queue and (at_once is None or pool_state.gangs < at_once):
        trial = state.trials[pool_state.queue[0]]
        wish = state.wished.get(trial.number)
        if wish is None or trial.activity is not None or not limits.is_open(state, trial, wish):
            pool_state.queue.popleft()
            continue
        gang = pool_state.free_slots.seat(wish.slots)
        if gang is None:
            return
        pool_state.queue.popleft()
        gangs.start(step, trial, gang, wish)


def _is_in_place(state: State, trial: Trial, wish: Wish) -> bool:
    pool_state = state.pool_state(wish.pool)
    if state.terms.data is not None:
        return trial.pool == wish.pool and hopping.is_in_place(state, trial)
    if pool_state.targets is not None and not state.wishes.steady:
        return set(pool_state.targets.get(trial.number, ())) == set(trial.gang)
    if trial.pool != wish.pool or len(trial.gang) != wish.slots:
        return False
    return not any(state.where[slot.node].leaving for slot in trial.gang)


def _rearrange(step: Step, pool_state: PoolState) -> None:
    """One epoch of placement, and those of its changes that are possible at once."""
    state, pool = step.state, pool_state.pool
    request = _request(state, pool_state)
    kept = state.wishes.nodes.get(pool.number, 0)
    if kept < len(request.cluster.staying):
        packing = pack(request, nodes_kept=kept)
        placement = packing.placement
        for empty in packing.release:
            cluster_manager.retire(pool_state, pool.nodes[empty])
    else:
        placement = place(request)
    pool_state.targets = dict(placement.gangs)
    for number in tuple(state.held):
        trial = state.trials[number]
        if trial.pool == pool.number:
            settle(step, trial)
    for wish in state.wishes.trials:
        target = pool_state.targets.get(wish.trial) if wish.pool == pool.number else None
        trial = state.trials[wish.trial]
        if target and trial.activity is None and pool_state.free_slots.holds(target):
            gangs.start(step, trial, target, wish)


def _request(state: State, pool_state: PoolState) -> PlacementRequest:
    nodes = [node for node in pool_state.pool.nodes.values() if node.ready_s is not None]
    wishes = [
        SlotWish(trial=wish.trial, slots=wish.slots)
        for wish in state.wishes.trials
        if wish.pool == pool_state.pool.number and limits.is_open(state, state.trials[wish.trial], wish)
    ]
    return PlacementRequest(
        cluster=PlacementNodes(
            nodes=tuple(node.number for node in nodes),
            slots_per_node=state.terms.cluster.slots_per_node,
            leaving=frozenset(node.number for node in nodes if node.leaving),
        ),
        wishes=tuple(wishes),
        present=_present(state, pool_state),
        min_slots=state.terms.gangs.min_slots,
    )


def _present(state: State, pool_state: PoolState) -> dict[TrialId, Gang]:
    """The slots of the gangs or, of those that move, their new slots."""
    present = pool_state.targets
    if present is None:
        held = (state.trials[number] for number in state.held)
        present = {trial.number: trial.gang for trial in held if trial.pool == pool_state.pool.number}
    return {number: gang for number, gang in present.items() if number in state.wished}
