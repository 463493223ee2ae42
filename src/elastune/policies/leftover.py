"""Where money goes that rounding leaves over: to trials that are next in line, then to slots for the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from elastune.core import State
from elastune.policies.affording import money_for
from elastune.policies.tariff import Leg, Tariff


class Purse:
    """What is left for a round, and what of it a change of its gangs would cost."""

    def __init__(self, legs: Sequence[Leg], state: State) -> None:
        self.tariff = Tariff.of(state.terms)
        self.limits = state.terms.gangs
        self.legs = legs
        self.state = state
        self.nodes = len(state.where)

    def joined(self, gangs: tuple[int, ...], extra: int) -> tuple[int, ...]:
        """Trials that are next in line, with the fewest slots."""
        return gangs + (self.limits.min_slots,) * extra

    def widened(self, gangs: tuple[int, ...], nu: int) -> tuple[int, ...]:
        """More slots for the best, step by step, where they are faster with them."""
        sizes, speedup = list(gangs), self.tariff.profile.speedup
        most = self.limits.max_slots or self.nodes * self.tariff.cluster.slots_per_node
        for place in range(len(sizes)):
            while sizes[place] * nu <= most and speedup.at(sizes[place] * nu) > speedup.at(sizes[place]):
                wider = [*sizes[:place], sizes[place] * nu, *sizes[place + 1 :]]
                if not self.pays(tuple(wider)):
                    break
                sizes = wider
        return tuple(sizes)

    def pays(self, gangs: tuple[int, ...]) -> bool:
        """On the nodes that are there: new ones would have to boot."""
        if self.tariff.nodes_for(gangs) > self.nodes:
            return False
        legs = [replace(self.legs[0], gangs=gangs), *self.legs[1:]]
        left_usd = money_for(self.state, self.tariff, [legs])
        return left_usd is None or self.tariff.price_usd([legs], booted=True) <= left_usd
