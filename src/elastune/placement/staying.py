"""When gangs stay where they are from one stage to the next: what a plan counts on and a run keeps.

A gang whose size does not change waits at the barrier in its processes and goes on there, without start-up.
At a barrier some trials are dropped and perhaps nodes are released; the others keep their slots as long as
enough nodes are held. Otherwise the placement controller (`pack`) moves as few gangs as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGangs:
    """The gangs of one stage."""

    slots: int  # of each gang
    gangs: int  # at a time
    trials: int
    nodes: int  # held; in the stage before, those that its gangs may be on

    @property
    def all_at_once(self) -> bool:
        return self.gangs == self.trials


def may_stay(*, slots_before: int, slots_now: int, waiting_is_billed: bool) -> bool:
    """Whether a gang waits at the barrier for the next stage. Where slots are billed while a gang holds them
    (billing by function), waiting for the slowest trial costs more than most start-ups: gangs leave."""
    return slots_before == slots_now and not waiting_is_billed


def nodes_to_stay(trials: int, nodes_before: int | npt.NDArray[np.int64]) -> np.int64 | npt.NDArray[np.int64]:
    """The fewest nodes on which all survivors can keep their slots, however they are spread.

    They are on no more nodes than there are survivors, and on no more than the stage before had; a gang
    larger than a node has its nodes to itself, and every plan holds those.
    """
    return np.minimum(trials, nodes_before)


def all_gangs_stay(before: StageGangs, now: StageGangs, *, waiting_is_billed: bool) -> bool:
    """Whether all survivors of a stage go on in their gangs, whichever trials survive.

    The gangs of the stage before may be on the nodes that it uses if they started there; if they had stayed
    themselves, on all nodes that it holds. Lost nodes and crashed gangs are not foreseen here.
    """
    if not may_stay(slots_before=before.slots, slots_now=now.slots, waiting_is_billed=waiting_is_billed):
        return False
    have_gangs = before.all_at_once and now.all_at_once and now.trials <= before.trials
    return have_gangs and bool(now.nodes >= nodes_to_stay(now.trials, before.nodes))
