"""Who looks after a node: a driver that lives, or nobody.

Wrong either way is dear: an orphan that is overlooked costs money for days, a node that is ended by mistake
takes a training with it. So a node of a run that is not known here is left alone for as long as its lease is
valid: its driver is somewhere else.
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


def why_orphaned(instance: LiveInstance, now: float, runs: Mapping[str, RunState]) -> str | None:
    """None: it is not, as far as can be told from here. `runs`: those that are known here."""
    if instance.is_kept is not None:
        return None if instance.is_kept else "its driver is gone"
    if instance.expires is None:
        return "it has no lease: no driver ever said how long it is needed"
    if instance.expires <= now:
        return f"its lease ended {format_duration(now - instance.expires)} ago"
    state = None if instance.run is None else runs.get(instance.run)
    if state is None or state is RunState.RUNNING:
        return None
    told = {RunState.INTERRUPTED: "is driven by nobody any more", RunState.RESTING: "rests, without nodes"}
    return f"run {instance.run} {told.get(state, f'has ended ({state.value})')}"


def known_states(root: Path, runs: Iterable[str]) -> dict[str, RunState]:
    """How those of the runs stand that have a folder here. One whose journal cannot be read is not known."""
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
    """`orphan`: why nobody looks after it; None: somebody does, or may."""

    instance: LiveInstance
    age_s: float
    orphan: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.instance.provider, self.instance.node

    @property
    def cost(self) -> float | None:
        """So far, by the price at which it was started; None: nobody sends a bill."""
        price = self.instance.usd_per_hour
        return None if price is None else price * self.age_s / SECONDS_PER_HOUR

    def to_dict(self, now: float) -> dict[str, object]:
        seen = self.instance
        return {
            "provider": seen.provider,
            "node": seen.node,
            "run": seen.run,
            "job": seen.job,
            "owner": seen.owner,
            "kind": seen.kind,
            "state": seen.state,
            "age_seconds": self.age_s,
            "usd_per_hour": seen.usd_per_hour,
            "cost": self.cost,
            "lease_seconds": None if seen.expires is None else seen.expires - now,
            "orphan": self.orphan,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """A provider that was not looked at, and why. `is_absent`: it is not set up here."""

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
    """`ended` are gone by a new listing; `left` are alive though they were told to end."""

    ended: tuple[str, ...]
    left: NodeList
