"""What stands between a body and the core: every event and what it caused goes into the journal first."""

from __future__ import annotations

from collections.abc import Sequence

from elastune.core import AnyCommand, AnyEvent, Core, State
from elastune.journal import Writer
from elastune.journal.codec import encode
from elastune.place import NodeId
from elastune.providers import Belief, Machine


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


def belief_of(state: State) -> Belief:
    """What a run that comes back knows about its nodes."""
    machines = tuple(
        Machine(node=node.number, token=str(node.request), since_s=node.born_s, ready_s=node.ready_s)
        for node in state.where.values()
    )
    known = {machine.node for machine in machines}
    gone: frozenset[NodeId] = frozenset(node for node in state.ledger.nodes if node not in known)
    tokens = frozenset(str(number) for number in range(1, state.requests + 1))
    refused = {str(request): count for request, count in state.refused.items()}
    return Belief(machines=machines, tokens=tokens, refused=refused, gone=gone)
