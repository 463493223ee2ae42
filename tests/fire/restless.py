"""A policy without sense: it wishes at random, so that the core meets what no sane policy would ask of it."""

from __future__ import annotations

import random

from elastune.core.commands import Ending
from elastune.core.events import AnyEvent, TrialsSampled
from elastune.core.policy import Policy, Vetoed
from elastune.core.state import State
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.model.limits import Limit


class Restless(Policy):
    def __init__(self, seed: int, decisions: int) -> None:
        self.luck = random.Random(seed)
        self.stays = random.Random(f"stays {seed}")  # a stream of its own leaves the rest to the same luck
        self.left = decisions
        self.timers = 0
        self.sampling = False

    def start(self, state: State) -> Advice:
        self.sampling = True
        return Advice(
            wishes=Wishes(nodes={0: self._nodes(state)}),
            sample=self.luck.randint(1, 6),
            timers={"restless": self.luck.uniform(0, 200)},
        )

    def handle(self, event: AnyEvent | Vetoed, state: State) -> Advice | None:
        if isinstance(event, TrialsSampled):
            self.sampling = False
        alarm = getattr(event, "timer", None) == "restless"
        if not alarm and self.luck.random() < 0.6:
            return None
        self.left -= 1
        if self.left <= 0:
            return Advice(done=Ending.COMPLETE)
        timers = {"restless": state.now_s + self.luck.uniform(0, 300)} if alarm else {}
        return self._whim(state, timers)

    def _whim(self, state: State, timers: dict[str, float]) -> Advice:
        luck = self.luck
        living = list(state.living())
        luck.shuffle(living)
        chosen = living[: luck.randint(0, len(living))]
        steady = luck.random() < 0.5
        most = state.terms.cluster.slots_per_node * 2
        pools = 2 if luck.random() < 0.3 else 1
        wishes = tuple(
            Wish(
                trial.number,
                luck.randint(state.terms.gangs.min_slots, max(most, state.terms.gangs.min_slots)),
                trial.iteration + luck.randint(0, 6),
                luck.randrange(pools),
                luck.random() < 0.1,
                self.stays.random() < 0.5,
            )
            for trial in chosen
        )
        stop = tuple(trial.number for trial in living if luck.random() < 0.03)
        sample = luck.randint(1, 4) if not self.sampling and luck.random() < 0.3 else 0
        self.sampling |= sample > 0
        return Advice(
            wishes=Wishes(
                trials=tuple(wish for wish in wishes if wish.trial not in stop),
                nodes={pool: self._nodes(state) for pool in range(pools)},
                steady=steady,
                pack=self.stays.random() < 0.5,
            ),
            sample=sample,
            stop=stop,
            timers=timers,
            concede=luck.choice([None, None, None, Limit.DEADLINE, Limit.BUDGET]),
        )

    def _nodes(self, state: State) -> int:
        return self.luck.randint(0 if self.timers else 1, state.terms.cluster.max_nodes + 1)
