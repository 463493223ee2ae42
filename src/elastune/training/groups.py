"""The workers of a gang as a group: how it is formed, and what the workers exchange.

A group of one needs nothing. Larger ones are torch's process groups, formed again for every gang in
long-lived processes. Rank 0 listens on exactly one address; the caller passes its port to the others.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Protocol

from elastune.errors import ExecutionError


class Group(Protocol):
    rank: int
    size: int

    def agree(self, word: int) -> int:
        """Rank 0's number, on every rank. Cheap enough for every iteration."""

    def total(self, value: Any) -> Any:
        """The sum over the ranks of a number or a tensor; integers stay integers."""

    def wrap(self, model: Any, options: Mapping[str, Any]) -> Any:
        """A model whose gradients are averaged over the ranks."""

    def close(self) -> None:
        """Leave the group; the process can then join another one. May be called again."""


class Solo:
    """A gang of one, which needs no torch."""

    rank = 0
    size = 1

    def agree(self, word: int) -> int:
        return int(word)

    def total(self, value: Any) -> Any:
        return value

    def wrap(self, model: Any, options: Mapping[str, Any]) -> Any:
        return model

    def close(self) -> None:
        pass


class Rendezvous:
    """A socket of rank 0 that listens already, so the others may connect before rank 0 joins."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.host, self.port = listening.getsockname()[:2]

    def take(self) -> int:
        """The file descriptor; the caller closes it."""
        return self._listening.detach()

    def close(self) -> None:
        self._listening.close()


def open_rendezvous(host: str) -> Rendezvous:
    """Listen on this address and no other, on a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind((host, 0))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ExecutionError(
            f"cannot listen on {host} for the workers of a gang: {error}; expected an address of this machine"
        ) from error
    return Rendezvous(listening)
