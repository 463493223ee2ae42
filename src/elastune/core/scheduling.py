"""From wishes to gangs: which trials start, go on or give way, and on which slots.

Steady wishes leave gangs where they are and fill free slots by best fit, which seats as many gangs of one
size as any other way. The placement controller decides where a gang must leave: it empties the nodes that new
wishes no longer hold (`pack`), and chooses which of the gangs that stay make room for a trial that has work
to do (`place`), in both cases as few as possible. Other wishes go through it altogether: it may move and
shrink gangs. Its answer stays in `targets` until the gangs have moved: a gang saves, leaves, and starts again
when its new slots are free.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import is_not, ne

from elastune.core import cluster_manager, gangs, hopping, limits
from elastune.core.state import PoolState, State, Step
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Wish, Wishes
from elastune.errors import InvariantError
from elastune.model.ids import Gang, TrialId
from elastune.placement.controller import pack, place
from elastune.placement.request import Change, Packing, PlacementNodes, PlacementRequest, SlotWish


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
    if state.terms.data is None:
        _queue_up(state, wishes)
    if wishes.steady:
        for pool_state in state.pools.values() if wishes.pack and state.terms.data is None else ():
            _empty_surplus(step, pool_state)
        for number in _to_settle(state, before, was_steady=was_steady):
            settle(step, state.trials[number])


def _queue_up(state: State, wishes: Wishes) -> None:
    """The wished trials that have no gang. With thousands of slots most have one: it is asked first."""
    trials = state.trials
    try:
        idle = [wish for wish in wishes.trials if trials[wish[0]].activity is None]
    except KeyError as unknown:
        raise InvariantError(f"there is no trial {unknown.args[0]}") from None
    for wish in idle:
        if limits.is_open(state, trials[wish.trial], wish):
            state.pool_state(wish.pool).queue.append(wish.trial)


def _to_settle(state: State, before: Mapping[TrialId, Wish], *, was_steady: bool) -> list[TrialId]:
    """The gangs of trials whose wish has changed; where models hop, also those on all workers."""
    if not was_steady:
        return list(state.held)
    new, old = state.wished.get, before.get
    held = state.held
    hops = state.terms.data is not None
    found = list(compress(held, map(is_not, map(new, held), map(old, held))))  # twice as fast as a loop
    if hops:
        found = [n for n in held if new(n) is not old(n) or _has_all(state, n)]
    if not found or any(pool_state.pool.leaving for pool_state in state.pools.values()):
        return found
    if hops:
        return [n for n in found if new(n) != old(n) or _has_all(state, n)]
    return list(compress(found, map(ne, map(new, found), map(old, found))))


def _has_all(state: State, trial: TrialId) -> bool:
    """Whether the trial, where models hop, trains on all workers: other trials may want to hop now."""
    return state.trials[trial].visit is None


def settle(step: Step, trial: Trial) -> None:
    """Bring a trial's gang in line with its wish."""
    state = step.state
    wish = state.wished.get(trial.number)
    if trial.activity is None or trial.activity is Activity.SAVING:
        return
    if trial.visit is not None:
        hopping.settle_hops(step, trial)
    elif wish is None or state.shutdown:
        gangs.revoke(step, trial)
    elif not limits.is_open(state, trial, wish):
        if not _may_stay(state, trial, wish):
            gangs.revoke(step, trial)
        elif not trial.stays:
            gangs.keep(step, trial)
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
    while pool_state.queue and _may_start_one(state, pool_state):
        trial = state.trials[pool_state.queue[0]]
        wish = state.wished.get(trial.number)
        if wish is None or trial.activity is not None or not limits.is_open(state, trial, wish):
            pool_state.queue.popleft()
            continue
        gang = pool_state.free_slots.seat(wish.slots) or _make_room(step, pool_state, wish)
        if gang is None:
            return
        pool_state.queue.popleft()
        gangs.start(step, trial, gang, wish)


def _may_start_one(state: State, pool_state: PoolState) -> bool:
    """Whether fewer gangs have work to do than the wishes allow."""
    at_once = state.wishes.at_once.get(pool_state.pool.number)
    if at_once is None or pool_state.gangs < at_once:
        return True
    return pool_state.gangs - len(_kept(state, pool_state)) < at_once


def _kept(state: State, pool_state: PoolState) -> list[Trial]:
    """The trials of a pool that wait in their gangs, saved."""
    return [trial for trial in map(state.trials.__getitem__, pool_state.staying) if trial.is_kept]


def _make_room(step: Step, pool_state: PoolState, wish: Wish) -> Gang | None:
    """Slots for a trial that has work to do, from gangs that have none and stay; None if that does not help.

    As few as possible leave, of equals the lowest-ranked.
    """
    state = step.state
    kept = {trial.number: trial for trial in _kept(state, pool_state)}
    if not kept:
        return None
    held = (state.trials[number] for number in state.held)
    present = {trial.number: trial.gang for trial in held if trial.pool == pool_state.pool.number}
    ranked = [SlotWish(trial=wish.trial, slots=wish.slots)]
    ranked += [SlotWish(trial=n, slots=len(kept[n].gang)) for n in state.wished if n in kept]
    placement = place(
        PlacementRequest(
            cluster=_cluster(state, pool_state),
            wishes=tuple(ranked),
            present=present,
            locked=frozenset(present.keys() - kept),
            min_slots=_most_slots(ranked),
        )
    )
    if wish.trial not in placement.gangs:
        return None
    for number, trial in kept.items():
        if placement.changes[number] is not Change.STAY:
            gangs.revoke(step, trial)
    return pool_state.free_slots.seat(wish.slots)


def _may_stay(state: State, trial: Trial, wish: Wish) -> bool:
    """Whether a gang whose wish is fulfilled keeps its slots. None begins to while others wait for slots."""
    if not (wish.stay and state.wishes.steady) or state.terms.data is not None or state.suspended:
        return False
    is_done = trial.iteration >= wish.until_iteration and not trial.returned
    if trial.activity is not Activity.WAITING or trial.phase.is_over or not is_done:
        return False
    return (trial.stays or not state.pools[wish.pool].queue) and _is_in_place(state, trial, wish)


def _is_in_place(state: State, trial: Trial, wish: Wish) -> bool:
    pool_state = state.pool_state(wish.pool)
    if state.terms.data is not None:
        return trial.pool == wish.pool and hopping.is_in_place(state, trial)
    if pool_state.targets is not None and not state.wishes.steady:
        return set(pool_state.targets.get(trial.number, ())) == set(trial.gang)
    if trial.pool != wish.pool or len(trial.gang) != wish.slots:
        return False
    return not any(state.where[slot.node].leaving for slot in trial.gang)


def _empty_surplus(step: Step, pool_state: PoolState) -> None:
    """Fewer nodes are wanted than are up: the placement controller chooses those that are given up, so that
    as few as possible of the gangs that go on must move: those with work to do before those that wait."""
    state, pool = step.state, pool_state.pool
    kept = state.wishes.nodes.get(pool.number, 0)
    wishes = [wish for wish in state.wishes.trials if wish.pool == pool.number]
    going = {wish.trial: state.trials[wish.trial].gang for wish in wishes if _goes_on(state, wish)}
    if pool.ready <= kept or not going:
        return
    open_ = {wish.trial for wish in wishes if limits.is_open(state, state.trials[wish.trial], wish)}
    packing = _pack(state, pool_state, [w for w in wishes if w.trial in open_ or w.trial in going], going)
    working = {trial: gang for trial, gang in going.items() if trial in open_}
    if any(packing.placement.changes[trial] is not Change.STAY for trial in working):
        packing = _pack(state, pool_state, [wish for wish in wishes if wish.trial in open_], working)
    for node in packing.release:
        cluster_manager.retire(pool_state, pool.nodes[node])


def _pack(
    state: State, pool_state: PoolState, wishes: Sequence[Wish], going: Mapping[TrialId, Gang]
) -> Packing:
    """On as many nodes as are wanted. No gang shrinks; if not all find room, gangs on the fullest nodes go on
    and others wait."""
    nodes = {trial: gang[0].node for trial, gang in going.items()}
    neighbours = Counter(nodes.values())
    ranked = [wish for wish in wishes if wish.trial in going]
    ranked.sort(key=lambda wish: -neighbours[nodes[wish.trial]])
    ranked += [wish for wish in wishes if wish.trial not in going]
    at_once = state.wishes.at_once.get(pool_state.pool.number, len(ranked))
    first = [SlotWish(trial=wish.trial, slots=wish.slots) for wish in ranked[: max(at_once, len(going))]]
    request = PlacementRequest(
        cluster=_cluster(state, pool_state),
        wishes=tuple(first),
        present=going,
        min_slots=_most_slots(first),
    )
    return pack(request, nodes_kept=state.wishes.nodes.get(pool_state.pool.number, 0))


def _goes_on(state: State, wish: Wish) -> bool:
    """Whether the trial has a gang as wished for, which trains or stays."""
    trial = state.trials[wish.trial]
    if trial.activity is None or (trial.activity is Activity.SAVING and not trial.stays):
        return False
    has_work = limits.is_open(state, trial, wish) or (wish.stay and trial.stays)
    return has_work and _is_in_place(state, trial, wish)


def _most_slots(wishes: Sequence[SlotWish]) -> int:
    """As `min_slots`, it keeps all of them from shrinking."""
    return max(wish.slots for wish in wishes)


def _cluster(state: State, pool_state: PoolState) -> PlacementNodes:
    """The nodes that are up: those without gangs first, as they are the first to be given up, then by age."""
    nodes = [node for node in pool_state.pool.nodes.values() if node.ready_s is not None]
    nodes.sort(key=lambda node: bool(pool_state.occupants[node.number]))
    return PlacementNodes(
        nodes=tuple(node.number for node in nodes),
        slots_per_node=state.terms.cluster.slots_per_node,
        leaving=frozenset(node.number for node in nodes if node.leaving),
    )


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
