"""How a real run stands, on stderr: one line that changes at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from elastune.core import State

_PLAIN_EVERY_S = 15.0


class RunMeter:
    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415

        self._console = Console(stderr=True, highlight=False, markup=False)
        self._line = self._console.status("starting the cluster")
        self._next = time.monotonic() + _PLAIN_EVERY_S

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.stop()

    def say(self, text: str) -> None:
        self._console.print(text)

    def __call__(self, state: State) -> None:
        if self._console.is_terminal:
            self._line.update(tell_standing(state))
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _PLAIN_EVERY_S
            self._console.print(tell_standing(state))


def tell_standing(state: State) -> str:
    """Time and money against their limits, nodes, trials, and the best so far."""
    from elastune.units import format_duration, format_usd, plural  # noqa: PLC0415

    limits = state.limits
    time_told = format_duration(state.now_s)
    if limits.deadline_s is not None:
        time_told += f" of {format_duration(limits.deadline_s)}"
    money_told = format_usd(state.ledger.accrued_usd(state.now_s))
    if limits.budget_usd is not None:
        money_told += f" of {format_usd(limits.budget_usd)}"
    up = sum(node.ready_s is not None for node in state.where.values())
    booting = len(state.where) - up
    nodes = plural(up, "node") + (f" (+{booting} booting)" if booting else "")
    done = sum(trial.phase.is_over for trial in state.trials.values())
    trials = f"{len(state.held)} of {plural(len(state.trials), 'trial')} training, {done} done"
    best = "" if state.best is None else f", best {state.best.metric:.6g} (trial {state.best.trial})"
    return f"{time_told}, {money_told}, {nodes}, {trials}{best}"
