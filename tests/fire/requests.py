"""Requests of people amid everything else: new limits, trials stopped, configurations added, at random times.

The seed decides. What the core refuses is not asked; what it grants must hold from then on. Some requests are
followed by the death of the driver, between the journal and the first command.
"""

from __future__ import annotations

import random

from elastune.core.events import AnyRequest, ConfigAdded, RunExtended, TrialStopAsked
from elastune.core.state import State
from elastune.model.ids import TrialId

# Seeds from here on are those below, with requests.
EXTENDED = 100_000_000
MOST_REOPENINGS = 3


class Requester:
    def __init__(self, seed: int) -> None:
        self.luck = random.Random(f"requests {seed}")
        self.often = self.luck.choice([0.005, 0.02, 0.1]) if seed >= EXTENDED else 0.0
        self.dies = self.luck.choice([0.0, 0.2]) if seed >= EXTENDED else 0.0
        self.reopenings = self.luck.randint(0, MOST_REOPENINGS) if seed >= EXTENDED else 0
        self.asked = 0
        self.left = 40

    def ask(self, state: State, now_s: float) -> AnyRequest | None:
        if not self.often or not self.left or self.luck.random() >= self.often:
            return None
        self.left -= 1
        kind = self.luck.choice(["extend", "extend", "stop", "add"])
        if kind == "extend":
            return self.extend(state, now_s)
        if kind == "add":
            config = self.luck.choice([{"limit": 0.7}, {"how": 4, "pace": 2.0}, {}])
            return ConfigAdded(at_s=now_s, request_id=self._id(), config=config)
        trial = TrialId(self.luck.randint(0, max(0, len(state.trials))))
        return TrialStopAsked(at_s=now_s, request_id=self._id(), trial=trial, reason="fire")

    def extend(self, state: State, now_s: float, *, generous: bool = False) -> RunExtended:
        luck, limits, nodes = self.luck, state.limits, state.terms.cluster.max_nodes
        by = (1.5, 3.0) if generous else (0.7, 1.1, 2.0)
        deadline, budget = limits.deadline_s, limits.budget_usd
        if deadline is not None and (generous or luck.random() < 0.6):
            deadline = max(deadline, now_s) * luck.choice(by)
        if budget is not None and (generous or luck.random() < 0.6):
            budget = max(budget, state.ledger.accrued_usd(now_s)) * luck.choice(by)
        return RunExtended(
            at_s=now_s,
            request_id=self._id(),
            deadline_s=deadline,
            budget_usd=budget,
            max_nodes=luck.choice([None, None, nodes + 1, 2 * nodes, max(1, nodes - 1)]),
            more_trials=luck.choice([0, 0, 0, 1, 5]),
        )

    def kills(self) -> bool:
        """Whether the driver dies with the request in its journal, before it acts on it."""
        return self.luck.random() < self.dies

    def _id(self) -> str:
        self.asked += 1
        return f"r{self.asked}"
