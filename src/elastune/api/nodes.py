"""What is alive, across runs and providers; and ending what nobody looks after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elastune.api.running import RUNS_FOLDER
from elastune.cluster import SECONDS_PER_HOUR
from elastune.errors import JobError
from elastune.providers.estate import Estate, Outlook, Sighting, UnseenError, known_estates, load_estate
from elastune.runs.custody import known_states, why_orphaned
from elastune.wording import either

# An instance takes about a minute to be gone.
_PATIENCE_S = 180.0
_LOOK_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """`orphan`: why nobody looks after it; None: somebody does, or may."""

    sighting: Sighting
    age_s: float
    orphan: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.sighting.provider, self.sighting.node

    @property
    def cost(self) -> float | None:
        """So far, by the price at which it was started; None: nobody sends a bill."""
        price = self.sighting.usd_per_hour
        return None if price is None else price * self.age_s / SECONDS_PER_HOUR

    def to_dict(self, now: float) -> dict[str, object]:
        seen = self.sighting
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


class Wardens:
    """Whoever can list and end nodes, by name. `estates` that are given take the place of those by name."""

    def __init__(
        self,
        *,
        provider: str | None = None,
        region: str | None = None,
        runs_folder: str | Path = RUNS_FOLDER,
        estates: Mapping[str, Estate] | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        known = known_estates() if estates is None else tuple(estates)
        if provider is not None and provider not in known:
            raise JobError(
                f"provider is {provider!r}, whose nodes cannot be listed; expected {either(known)}"
            )
        self._names = known if provider is None else (provider,)
        self._outlook = Outlook(region=region)
        self._root = Path(runs_folder)
        self._estates = dict(estates or {})
        self._clock = clock
        self._sleep = sleep

    def look(self, run: str | None = None) -> NodeList:
        """What is alive, of one run or of all; `run` is an id or its start."""
        return self._look(self._names, run)

    def end(self, shown: Iterable[LiveNode]) -> Swept:
        """End those that are still orphans, wait until they are gone, and tell which are not.

        Somebody may have thought for a while about what was shown, and a driver may have come back.
        """
        named = {node.key for node in shown}
        names = sorted({provider for provider, _ in named})
        doomed = named & {node.key for node in self._look(names).orphans}
        refused = {
            name: self._end(name, [node for provider, node in sorted(doomed) if provider == name])
            for name in names
        }
        until = self._clock() + _PATIENCE_S
        while True:
            seen = self._look(names)
            left = tuple(node for node in seen.nodes if node.key in doomed)
            if self._clock() >= until or all(refused[node.sighting.provider] for node in left):
                break
            self._sleep(_LOOK_S)
        unseen = {each.provider: each for each in seen.unseen}
        unseen |= {name: each for name, each in refused.items() if each is not None}
        gone = doomed - {node.key for node in left}
        return Swept(
            ended=tuple(node for provider, node in sorted(gone) if provider not in unseen),
            left=NodeList(at=seen.at, nodes=left, unseen=tuple(unseen.values())),
        )

    def _end(self, name: str, nodes: list[str]) -> Unseen | None:
        """Why it could not."""
        try:
            if nodes:
                self._estate(name).end(nodes)
        except UnseenError as error:
            return _unseen(name, error)
        return None

    def _look(self, names: Iterable[str], run: str | None = None) -> NodeList:
        sightings: list[Sighting] = []
        unseen: list[Unseen] = []
        for name in names:
            try:
                sightings += self._estate(name).sightings()
            except UnseenError as error:
                unseen.append(_unseen(name, error))
        now = self._clock()
        wanted = [each for each in sightings if run is None or (each.run or "").startswith(run)]
        states = known_states(self._root, {each.run for each in wanted if each.run is not None})
        nodes = (
            LiveNode(
                sighting=each,
                age_s=max(0.0, now - each.since),
                orphan=why_orphaned(each, now, states),
            )
            for each in wanted
        )
        return NodeList(at=now, nodes=tuple(nodes), unseen=tuple(unseen))

    def _estate(self, name: str) -> Estate:
        if name not in self._estates:
            self._estates[name] = load_estate(name)(self._outlook)
        return self._estates[name]


def _unseen(name: str, error: UnseenError) -> Unseen:
    return Unseen(provider=name, reason=str(error), is_absent=error.is_absent)
