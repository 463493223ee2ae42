"""Lists running nodes across runs and providers, and terminates orphans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from elastune.api.simulating import RUNS_FOLDER
from elastune.errors import JobError
from elastune.providers.protocol import Inventory, InventoryScope, LiveInstance, UnseenError
from elastune.providers.registry import known_inventories, load_inventory
from elastune.runs.orphans import LiveNode, NodeList, Swept, Unseen, known_states, why_orphaned
from elastune.wording import either

# An instance takes about a minute to terminate.
_PATIENCE_S = 180.0
_LOOK_S = 2.0


class Supervision:
    """The inventories of all providers, or of one. `inventories` replaces them in tests."""

    def __init__(
        self,
        *,
        provider: str | None = None,
        region: str | None = None,
        runs_folder: str | Path = RUNS_FOLDER,
        inventories: Mapping[str, Inventory] | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        known = known_inventories() if inventories is None else tuple(inventories)
        if provider is not None and provider not in known:
            raise JobError(f"provider is {provider!r}; expected {either(known)}, whose nodes can be listed")
        self._names = known if provider is None else (provider,)
        self._scope = InventoryScope(region=region)
        self._root = Path(runs_folder)
        self._inventories = dict(inventories or {})
        self._clock = clock
        self._sleep = sleep

    def look(self, run: str | None = None) -> NodeList:
        """Running nodes of one run or of all; `run` is an id or its start."""
        return self._look(self._names, run)

    def end(self, shown: Iterable[LiveNode]) -> Swept:
        """Terminate those that are still orphans, wait until they are gone, and report which are not.

        The list is taken again: while the user decided, a driver may have come back.
        """
        named = {node.key for node in shown}
        names = sorted({provider for provider, _ in named})
        chosen = named & {node.key for node in self._look(names).orphans}
        refused = {
            name: self._end(name, [node for provider, node in sorted(chosen) if provider == name])
            for name in names
        }
        until = self._clock() + _PATIENCE_S
        while True:
            seen = self._look(names)
            left = tuple(node for node in seen.nodes if node.key in chosen)
            if self._clock() >= until or all(refused[node.instance.provider] for node in left):
                break
            self._sleep(_LOOK_S)
        unseen = {each.provider: each for each in seen.unseen}
        unseen |= {name: each for name, each in refused.items() if each is not None}
        gone = chosen - {node.key for node in left}
        return Swept(
            ended=tuple(node for provider, node in sorted(gone) if provider not in unseen),
            left=NodeList(at=seen.at, nodes=left, unseen=tuple(unseen.values())),
        )

    def _end(self, name: str, nodes: list[str]) -> Unseen | None:
        """The reason, if the nodes could not be terminated."""
        try:
            if nodes:
                self._inventory(name).end(nodes)
        except UnseenError as error:
            return _unseen(name, error)
        return None

    def _look(self, names: Iterable[str], run: str | None = None) -> NodeList:
        instances: list[LiveInstance] = []
        unseen: list[Unseen] = []
        for name in names:
            try:
                instances += self._inventory(name).instances()
            except UnseenError as error:
                unseen.append(_unseen(name, error))
        now = self._clock()
        wanted = [each for each in instances if run is None or (each.run or "").startswith(run)]
        states = known_states(self._root, {each.run for each in wanted if each.run is not None})
        nodes = (
            LiveNode(instance=each, age_s=max(0.0, now - each.since), orphan=why_orphaned(each, now, states))
            for each in wanted
        )
        return NodeList(at=now, nodes=tuple(nodes), unseen=tuple(unseen))

    def _inventory(self, name: str) -> Inventory:
        if name not in self._inventories:
            self._inventories[name] = load_inventory(name)(self._scope)
        return self._inventories[name]


def _unseen(name: str, error: UnseenError) -> Unseen:
    return Unseen(provider=name, reason=str(error), is_absent=error.is_absent)
