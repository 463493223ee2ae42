"""All nodes, as the driver sees them: orders go out in one message per node, news come in."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

from elastune.bodies.ray.messages import Bring, News, Order, Sealed
from elastune.bodies.ray.posts import Inbox, Outcome, Post, Share, open_post
from elastune.place import NodeId, Slot

# Three times what a poll takes at most.
_SILENCE_S = 90.0


class Dispatch(NamedTuple):
    """News from a node; `offset` takes its clock to ours. None: nobody is there any more."""

    node: NodeId
    offset: float
    news: News | None
    error: str = ""


class Fleet:
    """`share`: of every node alike."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._posts: dict[NodeId, Post] = {}
        self._orders: dict[NodeId, list[tuple[int, Order | Bring]]] = {}
        self._inbox = Inbox()
        self._looked = time.monotonic()

    def __contains__(self, node: NodeId) -> bool:
        return node in self._posts

    def start(self, node: NodeId, ray_node: str, sealed: Sealed) -> None:
        """Start the slots of that node. They tell when they are ready."""
        self._posts[node] = open_post(node, ray_node, sealed, self._share, self._inbox)

    def stop(self, node: NodeId) -> None:
        """End all processes there."""
        post = self._forget(node)
        if post is not None:
            post.stop()

    def close(self) -> None:
        """End all that is left, whatever state Ray is in: slots at home would outlive its connection."""
        for node in tuple(self._posts):
            with contextlib.suppress(Exception):
                self.stop(node)

    def order(self, slot: Slot, order: Order | Bring) -> None:
        """Goes out with the next `send`; to a node that is gone, nowhere."""
        if slot.node in self._posts:
            self._orders.setdefault(slot.node, []).append((slot.number, order))

    def order_all(self, order: Order) -> int:
        """To every node that was heard of, not to a slot; returns to how many."""
        nodes = [node for node, post in self._posts.items() if post.offset is not None]
        for node in nodes:
            self._orders.setdefault(node, []).append((0, order))
        return len(nodes)

    def send(self) -> None:
        orders, self._orders = self._orders, {}
        for node, some in orders.items():
            if node in self._posts:
                self._posts[node].send(some)

    def clock_of(self, node: NodeId) -> float:
        """What to add to our monotonic clock to get that node's."""
        post = self._posts.get(node)
        return 0.0 if post is None or post.offset is None else -post.offset

    def receive(self, timeout_s: float) -> Iterator[Dispatch]:
        """What has come in, waiting for the first of it at most so long."""
        for post, outcome in self._inbox.take(timeout_s):
            if self._posts.get(post.node) is post:
                yield from self._open(post, outcome)
        yield from self._silent()

    def _open(self, post: Post, outcome: Outcome) -> Iterator[Dispatch]:
        import ray  # noqa: PLC0415

        if isinstance(outcome, Exception):
            yield self._gone(post, outcome)
            return
        try:
            post.listen()
        except ray.exceptions.RayError as error:
            yield self._gone(post, error)
            return
        for each in outcome:
            yield Dispatch(post.node, post.offset or 0.0, each)

    def _gone(self, post: Post, error: Exception) -> Dispatch:
        with contextlib.suppress(Exception):  # whatever is left of it; mostly nothing is
            self.stop(post.node)
        return Dispatch(post.node, 0.0, None, _first_line(error))

    def _silent(self) -> Iterator[Dispatch]:
        """A poll returns after a while even if there is nothing to tell."""
        now = time.monotonic()
        were_stopped = now - self._looked > _SILENCE_S  # ourselves: nobody could be heard
        self._looked = now
        for post in tuple(self._posts.values()):
            if post.heard is None:
                continue
            if were_stopped:
                post.heard = now
            elif now - post.heard > _SILENCE_S:
                self.stop(post.node)
                yield Dispatch(post.node, 0.0, None, f"nothing was heard of it for {_SILENCE_S:.0f} s")

    def _forget(self, node: NodeId) -> Post | None:
        self._orders.pop(node, None)
        return self._posts.pop(node, None)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
