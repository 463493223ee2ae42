"""Holds a duel: a process in which both sides take turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

INSTALL = "Without Ray Tune: how to install it is said in benchmarks/runtime/__init__.py (--peer-python)."
OURS = "elastune"
_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray listens on 127.0.0.1 alone
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src")]),
}

Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """One measurement: a function of `ours` or `peer`, and its arguments."""

    by: str
    side: Literal["ours", "peer"]
    task: str
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a bout gave in every round."""

    bout: Bout
    rounds: tuple[Numbers, ...]

    def median(self, name: str) -> float:
        return statistics.median(numbers[name] for numbers in self.rounds)

    def has(self, name: str) -> bool:
        return all(name in numbers for numbers in self.rounds)

    def spread(self, name: str) -> str:
        values = [numbers[name] for numbers in self.rounds]
        return f"{min(values):.3g} to {max(values):.3g}"


def hold(bouts: Sequence[Bout], *, cpus: int, rounds: int, python: str | None) -> list[Outcome]:
    """Every bout once per round, in turns. Without `python`, in this environment and without the peer."""
    held = [bout for bout in bouts if python is not None or bout.side == "ours"]
    asked = {
        "cpus": cpus,
        "rounds": rounds,
        "bouts": [{"side": b.side, "task": b.task, "options": dict(b.options)} for b in held],
    }
    done = subprocess.run(
        [python or sys.executable, "-m", "benchmarks.runtime.duel", json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **_ENVIRONMENT},
    )
    if done.returncode:
        raise RuntimeError(f"under {python or sys.executable} it failed:\n{done.stderr[-3000:]}\n{INSTALL}")
    answers: list[list[Numbers]] = json.loads(done.stdout.splitlines()[-1])
    return [
        Outcome(bout=bout, rounds=tuple(answer[index] for answer in answers))
        for index, bout in enumerate(held)
    ]


def best_of(outcomes: Sequence[Outcome], name: str, *, most: bool = False) -> Outcome | None:
    """The peer's best, by the median."""
    of_peer = [outcome for outcome in outcomes if outcome.bout.side == "peer"]
    return (max if most else min)(of_peer, key=lambda each: each.median(name), default=None)


def note(repeats: int, python: str | None) -> str:
    if python is None:
        return INSTALL
    return f"Medians of {repeats} rounds in turns; load of the machine {os.getloadavg()[0]:.1f}."
