"""Decides which live nodes are orphans, without a living driver.

Both errors are expensive: an overlooked orphan costs money for days, a node ended by mistake destroys a
training. So a node of a run that is unknown here is left alone while its lease is valid: its driver runs on
another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elastune.errors import ElastuneError
from elastune.journal.run_folders import run_folders
from elastune.journal.store import Journal
from elastune.model.cluster import SECONDS_PER_HOUR
from elastune.providers.protocol import LiveInstance
from elastune.runs.run_list import RunState, find_end, state_of
from elastune.wording import format_duration

_SHOWN = ("provider", "node", "run", "job", "owner", "kind", "state")


def why_orphaned(instance: LiveInstance, now: float, runs: Mapping[str, RunState]) -> str | None:
    """None: not an orphan, as far as is known here. `runs`: the states of the runs known here."""
    if instance.is_kept is not None:
        return None if instance.is_kept else "its driver is gone"
    if instance.expires is None:
        return "it has no lease: no driver ever set one"
    if instance.expires <= now:
        return f"its lease ended {format_duration(now - instance.expires)} ago"
    state = None if instance.run is None else runs.get(instance.run)
    if state is None or state is RunState.RUNNING:
        return None
    reasons = {RunState.INTERRUPTED: "has no driver", RunState.SUSPENDED: "is suspended, without nodes"}
    return f"run {instance.run} {reasons.get(state, f'has ended ({state.value})')}"


def known_states(root: Path, runs: Iterable[str]) -> dict[str, RunState]:
    """The states of those runs that have a folder here and a readable journal."""
    wanted = set(runs)
    if not wanted or not root.is_dir():
        return {}
    states: dict[str, RunState] = {}
    for folder in run_folders(root):
        if folder.run in wanted:
            try:
                journal = Journal.open(folder.journal, read_only=True)
                for record in journal.runs():
                    summary = journal.summary(record.run)
                    end, _ = find_end(journal, summary)
                    states[record.run] = state_of(journal, summary, end)
            except ElastuneError:
                continue
    return states


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """`orphan`: why it has no driver; None: it has one, or may have one."""

    instance: LiveInstance
    age_s: float
    orphan: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.instance.provider, self.instance.node

    @property
    def cost(self) -> float | None:
        """So far, at its price when started; None: the node is free."""
        price = self.instance.usd_per_hour
        return None if price is None else price * self.age_s / SECONDS_PER_HOUR

    def to_dict(self, now: float) -> dict[str, object]:
        seen = self.instance
        return {
            **{name: getattr(seen, name) for name in _SHOWN},
            "age_seconds": self.age_s,
            "usd_per_hour": seen.usd_per_hour,
            "cost": self.cost,
            "lease_seconds": None if seen.expires is None else seen.expires - now,
            "orphan": self.orphan,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """A provider that was not listed, and why. `is_absent`: it is not set up here."""

    provider: str
    reason: str
    is_absent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """By provider, oldest first. `at` is in seconds since 1970."""

    at: float
    nodes: tuple[LiveNode, ...]
    unseen: tuple[Unseen, ...]

    @property
    def orphans(self) -> tuple[LiveNode, ...]:
        return tuple(node for node in self.nodes if node.orphan is not None)

    def to_dict(self) -> dict[str, object]:
        return {
            "nodes": [node.to_dict(self.at) for node in self.nodes],
            "unseen": [{"provider": each.provider, "reason": each.reason} for each in self.unseen],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """`ended` are missing from a new listing; `left` are still alive after the request to end them."""

    ended: tuple[str, ...]
    left: NodeList
