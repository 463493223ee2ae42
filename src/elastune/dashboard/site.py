"""What all requests share: the folder of runs, who may do what, and the runs that are followed."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.exceptions import HTTPException

from elastune.dashboard import steering
from elastune.dashboard.guard import Access
from elastune.dashboard.listing import RunListing
from elastune.dashboard.run_data import FollowedRuns, RunData
from elastune.errors import ElastuneError
from elastune.journal.run_folders import FoundRun, find_run

T = TypeVar("T")
# A quote or a simulation keeps a core busy for seconds.
_MOST_QUOTES = 4
_LOOK_S = 0.25
_RUN = re.compile(r"[0-9a-f]{6}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """`folder`: where paths of jobs begin; `root`: the folder of runs; `ending`: streams end as well;
    `quoting`: of requests that compute."""

    root: Path
    access: Access
    folder: Path = field(default_factory=Path.cwd)
    runs: FollowedRuns = field(default_factory=FollowedRuns)
    tickets: steering.Tickets = field(default_factory=steering.Tickets)
    ending: threading.Event = field(default_factory=threading.Event)
    quoting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_QUOTES))
    listing: RunListing = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "listing", RunListing(self.root))

    def find(self, run: str) -> FoundRun:
        """By id alone: a path in an address finds nothing."""
        if not _RUN.fullmatch(run):
            raise HTTPException(404, f"{run[:40]!r} is no id of a run")
        return find_run(self.root, run)

    def data(self, run: str) -> RunData:
        return self.runs.of(self.find(run))

    def forget(self, run: str) -> None:
        with suppress(ElastuneError):
            self.runs.forget(self.find(run))


async def in_thread(call: Callable[..., T], *arguments: object, limiter: CapacityLimiter | None = None) -> T:
    """A call that blocks. With `limiter` it may take long: it does not keep a server that ends, or a browser
    that leaves, waiting."""
    run = partial(call, *arguments)
    return await anyio.to_thread.run_sync(run, abandon_on_cancel=limiter is not None, limiter=limiter)


async def unless_ending(site: Site, call: Awaitable[T]) -> T:
    """A server that ends does not wait for what takes seconds, such as a ranking of hyperparameters."""
    task = asyncio.ensure_future(call)
    while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
        if site.ending.is_set():
            task.cancel()
            raise HTTPException(503, "the dashboard ends")
    return task.result()
