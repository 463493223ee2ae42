"""The state behind a survey: requests, and nodes that boot or are up. Starting nodes is left to others."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Collection
from dataclasses import replace

from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, RequestStatus, Survey, check_request


class Roster:
    """The nodes of one driver. Their names end in a random mark, so that a resumed run does not reuse the
    name of a node that ended with an earlier driver."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(3)
        self._numbers = itertools.count()
        self._asked: dict[str, int] = {}
        self._starting: dict[str, tuple[NodeId, ...]] = {}
        self._begun_s: dict[str, float] = {}
        self._requests: dict[str, RequestStatus] = {}
        self._live: dict[NodeId, Machine] = {}
        self._ray_nodes: dict[NodeId, str] = {}

    @property
    def held(self) -> int:
        """The number of nodes that are there or being started."""
        return len(self._live) + sum(len(nodes) for nodes in self._starting.values())

    @property
    def ray_nodes(self) -> Collection[str]:
        """Ray's ids of all nodes that are up."""
        return self._ray_nodes.values()

    def order(self, token: str, count: int, *, room: int, reason: str) -> tuple[NodeId, ...]:
        """Note a request. Returns the nodes to start, none if the token is known; what exceeds the room is
        refused for this reason."""
        check_request(token, count, self._asked.get(token))
        self._asked[token] = count
        if token in self._starting or token in self._requests:
            return ()
        granted = max(0, min(count, room))
        if refused := count - granted:
            self._requests[token] = RequestStatus(token=token, asked=count, refused=refused, reason=reason)
        if not granted:
            return ()
        names = (NodeId(f"n{next(self._numbers)}-{self._mark}") for _ in range(granted))
        self._starting[token] = tuple(names)
        return self._starting[token]

    def begin(self, token: str, at_s: float) -> None:
        """The nodes of this request boot from now on."""
        self._begun_s[token] = at_s

    def start(self, token: str, nodes: Collection[NodeId], *, reason: str = "") -> None:
        """Of the ordered nodes, these boot; the rest will not come, for this reason."""
        missing = len(self._starting.pop(token)) - len(nodes)
        status = self._requests.get(token) or RequestStatus(token=token, asked=self._asked[token])
        reasons = [status.reason, reason] if missing else [status.reason]
        self._requests[token] = replace(
            status,
            granted=tuple(nodes),
            refused=status.refused + missing,
            reason="; ".join(dict.fromkeys(reason for reason in reasons if reason)),
        )
        since_s = self._begun_s.pop(token, math.nan)
        self._live |= {node: Machine(node=node, token=token, since_s=since_s) for node in nodes}

    def come_up(self, node: NodeId, ray_node: str, at_s: float) -> None:
        if node in self._live:
            self._live[node] = replace(self._live[node], ready_s=at_s)
            self._ray_nodes[node] = ray_node

    def booting(self) -> tuple[NodeId, ...]:
        """Those that have been started and are not up yet."""
        return tuple(node for node, machine in self._live.items() if machine.ready_s is None)

    def drop(self, nodes: Collection[NodeId]) -> tuple[NodeId, ...]:
        """These are released or lost. Returns those that were there."""
        known = tuple(node for node in nodes if self._live.pop(node, None) is not None)
        for node in known:
            self._ray_nodes.pop(node, None)
        return known

    def break_off(self, reason: str) -> None:
        """All nodes are lost, and those being started will not come."""
        for token in tuple(self._starting):
            self.start(token, (), reason=reason)
        self.drop(tuple(self._live))

    def ray_node(self, node: NodeId) -> str | None:
        return self._ray_nodes.get(node)

    def node_of(self, ray_node: str) -> NodeId | None:
        return next((node for node, name in self._ray_nodes.items() if name == ray_node), None)

    def survey(self, at_s: float) -> Survey:
        return Survey(at_s=at_s, machines=tuple(self._live.values()), requests=tuple(self._requests.values()))
