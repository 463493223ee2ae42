"""What stands between a body and the core: every event and what it caused goes into the journal first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from elastune.core import AnyCommand, AnyEvent, Core, State
from elastune.journal import Writer
from elastune.journal.codec import encode
from elastune.place import NodeId
from elastune.providers.protocol import Machine
from elastune.providers.watcher import Belief

_EVENTS_PER_BEAT = 256
_SECONDS_PER_BEAT = 0.25


class Driver:
    """A brain with a memory. `commit_each`: durable before a command is carried out, as real effects need."""

    def __init__(self, core: Core, writer: Writer, *, commit_each: bool = False) -> None:
        self.core = core
        self.writer = writer
        self.commit_each = commit_each

    def __call__(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = self.core.handle(event)
        self.writer.append(self.writer.next_number, [encode(event), *map(encode, commands)])
        if self.commit_each and commands:
            self.writer.commit()
        return commands


class Beat:
    """Now and then: four times per second by a clock, which only the edge has; without one, by events."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._next_s = -math.inf

    def is_due(self, events: int) -> bool:
        if self._clock is None:
            return not events % _EVENTS_PER_BEAT
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + _SECONDS_PER_BEAT
        return True


def belief_of(state: State) -> Belief:
    """What a run that comes back knows about its nodes."""
    machines = tuple(
        Machine(node=node.number, token=str(node.request), since_s=node.born_s, ready_s=node.ready_s)
        for node in state.where.values()
    )
    known = {machine.node for machine in machines}
    gone: frozenset[NodeId] = frozenset(node for node in state.ledger.nodes if node not in known)
    requests = frozenset(range(1, state.requests + 1))
    return Belief(machines=machines, requests=requests, refused=dict(state.refused), gone=gone)
