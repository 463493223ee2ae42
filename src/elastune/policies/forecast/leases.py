"""The leases of `forecast`: which trials have slots, until which iteration, at what cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.model.ids import TrialId
from elastune.model.metric import Mode
from elastune.policies.forecast.model import Ladder
from elastune.policies.forecast.outlook import Outlook

_ROUNDING = 1e-9
# The part of the time left in which a gang should reach what a winner can.
_IN_TIME = 0.9
# A gang is resized if its lease is so many times as long as the save and the start.
_RESIZE = 4.0


@dataclass(slots=True)
class LentSlots:
    slots: int
    room: float
    until: int
    since_s: float
    seconds: float  # expected
    is_spare: bool = False  # of slots that would idle otherwise; no node is kept for it


class TrialLeases:
    """Made anew with every outlook; trials keep what they have."""

    def __init__(self, outlook: Outlook, ladder: Ladder, most: int | None) -> None:
        self.outlook = outlook
        self.ladder = ladder
        self.most = most  # iterations of a trial
        self.live: dict[TrialId, LentSlots] = {}

    @property
    def least_s(self) -> float:
        """A gang is neither resized nor paused for a better trial before it has used its slots so long."""
        return _RESIZE * self.outlook.stop_s

    def lend(self, trial: Trial, slots: int, until: int, state: State) -> None:
        until = until if self.most is None else min(until, self.most)
        iteration_s = self.outlook.iteration_on_s(slots, state)
        seconds = (until - trial.iteration) * iteration_s + self.outlook.stop_s
        since_s = max(state.now_s, self.outlook.begin_s)
        self.live[trial.number] = LentSlots(slots, room_of(slots, state), until, since_s, seconds)

    def lend_a_turn(self, trial: Trial, slots: int, state: State) -> None:
        """To the next rung, or as far as a twelfth of the time takes it."""
        turn = max(1, int(self.outlook.turn_s / self.outlook.iteration_on_s(slots, state)))
        self.lend(trial, slots, min(self.ladder.next_rung(trial.iteration), trial.iteration + turn), state)

    def size(self, trial: Trial, goal: float, slots: float, state: State) -> int | None:
        """The fewest free slots that bring the trial to the goal in time; None: too few are free."""
        ahead = self.outlook
        sizes = [size for size in ahead.sizes if room_of(size, state) <= slots]
        if not sizes:
            return None
        work, left_s = goal - trial.iteration, _IN_TIME * ahead.left_s(state)
        enough = (size for size in sizes if work * ahead.iteration_on_s(size, state) <= left_s)
        size, held = next(enough, sizes[-1]), len(trial.gang)
        turn_s = min(ahead.turn_s, work * ahead.iteration_on_s(size, state))
        return held if held in sizes and turn_s < self.least_s else size

    def widen(self, trial: Trial, slots: float, state: State) -> float:
        """More free slots for a trial whose lease begins, if they make it faster; returns how many."""
        if state.terms.data is not None:  # where models hop, gangs are the core's
            return 0.0
        speedup, before = state.terms.profile.speedup, self.live[trial.number].slots
        most, wider = state.terms.gangs.max_slots or self.outlook.most_slots, before
        while 2 * wider <= most and speedup.at(2 * wider) > speedup.at(wider):
            if room_of(2 * wider, state) - room_of(before, state) > slots:
                break
            wider *= 2
        if wider != before:
            self.lend_a_turn(trial, wider, state)
        return room_of(wider, state) - room_of(before, state)

    def slots_lent(self, sampling: int, state: State) -> float:
        lent = sum([each.room for each in self.live.values()])
        return lent + sampling * room_of(self.outlook.least_slots, state)

    def nodes_needed(self, sampling: int, state: State) -> int:
        return _nodes_of(self.slots_lent(sampling, state), state)

    def nodes_earned(self, state: State) -> int:
        """Without those that only hold spare slots: these would keep each other alive."""
        return _nodes_of(sum([each.room for each in self.live.values() if not each.is_spare]), state)

    def work_to_come(self, state: State) -> float:
        """What the leases still need, as iterations on the fewest slots."""
        slot_s = 0.0
        for lent in self.live.values():
            slot_s += lent.slots * max(0.0, lent.since_s + lent.seconds - state.now_s)
        return slot_s / (self.outlook.least_slots * self.outlook.iteration_s)

    def usd_to_come(self, state: State) -> float:
        """What the leases will still cost."""
        usd, now_s, slot_usd_s = 0.0, state.now_s, state.terms.cluster.slot_usd_per_s
        for lent in self.live.values():
            left_s = lent.since_s + lent.seconds - now_s
            if left_s > 0.0:
                usd += lent.slots * left_s * slot_usd_s
        return usd


def _nodes_of(slots: float, state: State) -> int:
    cluster = state.terms.cluster
    return min(math.ceil(slots / cluster.slots_per_node - _ROUNDING), cluster.max_nodes)


def room_of(slots: int, state: State) -> float:
    """The slots that a gang takes up: fewer may not divide a node, more take whole nodes."""
    per_node = state.terms.cluster.slots_per_node
    return per_node / (per_node // slots) if slots < per_node else -(-slots // per_node) * per_node


def scores_of(trial: Trial, state: State) -> list[float]:
    """Less is better."""
    return [-value for value in trial.values] if state.terms.mode is Mode.MAX else list(trial.values)
