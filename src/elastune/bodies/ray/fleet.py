"""The agents on all nodes, as the driver sees them: orders go out in one message per node, news come in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from elastune.bodies.ray.agent import agent_class
from elastune.bodies.ray.messages import Manual, News, Order
from elastune.place import NodeId, Slot

_LOOKS = 5
# Three times what a poll takes at most.
_SILENCE_S = 90.0


class Dispatch(NamedTuple):
    """News from a node; `offset` takes its clock to ours. None: the agent there is gone."""

    node: NodeId
    offset: float
    news: News | None
    error: str = ""


class Post:
    """One agent."""

    def __init__(self, node: NodeId, handle: Any) -> None:
        self.node = node
        self.handle = handle
        self.poll: Any = handle.poll.remote()
        self.offset: float | None = None
        self.heard = time.monotonic()
        self.orders: list[tuple[int, Order]] = []


class Fleet:
    """`cpus` and `gpus` are what an agent takes of its node: all of its slots."""

    def __init__(self, *, slots_per_node: int, cpus: float, gpus: float) -> None:
        self._slots_per_node = slots_per_node
        self._cpus = cpus
        self._gpus = gpus
        self._posts: dict[NodeId, Post] = {}
        self._by_poll: dict[Any, Post] = {}
        self._looked = time.monotonic()

    def __contains__(self, node: NodeId) -> bool:
        return node in self._posts

    def start(self, node: NodeId, ray_node: str, manual: Manual) -> None:
        """Put an agent on exactly that node. Its slots tell when they are ready."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        handle = (
            agent_class()
            .options(
                num_cpus=self._cpus,
                num_gpus=self._gpus,
                max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(ray_node, soft=False),
            )
            .remote(manual, self._slots_per_node)
        )
        post = Post(node, handle)
        self._posts[node] = post
        self._by_poll[post.poll] = post

    def stop(self, node: NodeId) -> None:
        """End the agent there and with it all its processes."""
        import ray  # noqa: PLC0415

        post = self._forget(node)
        if post is not None:
            ray.kill(post.handle)

    def order(self, slot: Slot, order: Order) -> None:
        """Goes out with the next `send`; to a node that is gone, nowhere."""
        post = self._posts.get(slot.node)
        if post is not None:
            post.orders.append((slot.number, order))

    def order_all(self, order: Order) -> int:
        """To every agent that was heard of, not to a slot; returns to how many."""
        posts = [post for post in self._posts.values() if post.offset is not None]
        for post in posts:
            post.orders.append((0, order))
        return len(posts)

    def send(self) -> None:
        for post in self._posts.values():
            if post.orders:
                post.handle.order.remote(post.orders)
                post.orders = []

    def clock_of(self, node: NodeId) -> float:
        """What to add to our monotonic clock to get that node's."""
        post = self._posts.get(node)
        return 0.0 if post is None or post.offset is None else -post.offset

    def receive(self, timeout_s: float) -> Iterator[Dispatch]:
        """What has come in, waiting for the first of it at most so long."""
        import ray  # noqa: PLC0415

        if not self._by_poll:
            time.sleep(timeout_s)
            return
        polls = list(self._by_poll)
        done, _ = ray.wait(polls, num_returns=1, timeout=timeout_s)
        if done:
            done, _ = ray.wait(polls, num_returns=len(polls), timeout=0)
        for poll in done:
            post = self._by_poll.pop(poll, None)
            if post is not None:
                yield from self._open(post, poll)
        yield from self._silent()

    def _silent(self) -> Iterator[Dispatch]:
        """A poll returns after a while even if there is nothing to tell."""
        now = time.monotonic()
        if now - self._looked > _SILENCE_S:  # we were stopped ourselves: nobody could be heard
            for post in self._posts.values():
                post.heard = now
        self._looked = now
        for post in tuple(self._posts.values()):
            if now - post.heard > _SILENCE_S:
                self.stop(post.node)
                yield Dispatch(post.node, 0.0, None, f"nothing was heard of it for {_SILENCE_S:.0f} s")

    def _open(self, post: Post, poll: Any) -> Iterator[Dispatch]:
        import ray  # noqa: PLC0415

        try:
            news = ray.get(poll)
            post.heard = time.monotonic()
            if post.offset is None:
                post.offset = _offset_of(post)
        except ray.exceptions.RayError as error:
            self._forget(post.node)
            yield Dispatch(post.node, 0.0, None, _first_line(error))
            return
        post.poll = post.handle.poll.remote()
        self._by_poll[post.poll] = post
        for each in news:
            yield Dispatch(post.node, post.offset, each)

    def _forget(self, node: NodeId) -> Post | None:
        post = self._posts.pop(node, None)
        if post is not None:
            self._by_poll.pop(post.poll, None)
        return post


def _offset_of(post: Post) -> float:
    """Ours minus theirs, by the quickest of several looks."""
    import ray  # noqa: PLC0415

    best: tuple[float, float] | None = None
    for _ in range(_LOOKS):
        before = time.monotonic()
        try:
            theirs, *_ = ray.get(post.handle.look.remote(), timeout=2.0)
        except ray.exceptions.GetTimeoutError:
            break
        after = time.monotonic()
        if best is None or after - before < best[0]:
            best = after - before, (before + after) / 2 - theirs
    return 0.0 if best is None or abs(best[1]) <= best[0] else best[1]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
