"""Server-sent events: the state of a run as its journal grows, and the log of a trial as it is printed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elastune.dashboard.downloads import is_inside
from elastune.dashboard.run_data import RunData
from elastune.dashboard.site import Site, in_thread
from elastune.errors import ElastuneError, JobError
from elastune.runs.trial_logs import TrialLog, find_log
from elastune.views.page.figures import Json, finite

# How often a stream looks at the journal, and how old a look of another browser may be.
_LOOK_EVERY_S = 0.25
_LOOK_AT_REST_S = 1.0
# A comment now and then keeps proxies from closing a quiet stream.
_ALIVE_EVERY_S = 15.0


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(finite(data), allow_nan=False)}\n\n"


async def live_stream(site: Site, request: Request) -> Response:
    run = request.path_params["run"]
    await in_thread(site.find, run)  # an unknown run is an error, not a stream
    return StreamingResponse(_moments(site, run), media_type="text/event-stream")


async def _moments(site: Site, run: str) -> AsyncIterator[str]:
    """A snapshot whenever the journal has grown, and at least every second while the run goes on."""
    last, quiet_s, told = None, 0.0, ""
    data: RunData | None = None
    while not site.ending.is_set():
        try:
            if data is None:
                data = await in_thread(site.data, run)
            moment: Json = await in_thread(data.moment, _LOOK_EVERY_S)
        except ElastuneError as error:
            if str(error) != told:
                told = str(error)
                yield _event("trouble", {"error": told})
            data = None  # the journal may be mended, or the run begun anew
            await in_thread(site.forget, run)
            await asyncio.sleep(1.0)
            continue
        now = (moment["events"], moment["total"], moment["state"], moment["writer"])
        is_moving = moment["writer"] is not None
        if now != last or (is_moving and quiet_s >= 1.0):
            last, quiet_s, told = now, 0.0, ""
            yield _event("moment", moment)
        elif quiet_s >= _ALIVE_EVERY_S:
            quiet_s = 0.0
            yield ": alive\n\n"
        wait_s = _LOOK_EVERY_S if is_moving else _LOOK_AT_REST_S
        wait_s = 0.0 if moment["events"] != moment["total"] else wait_s
        await asyncio.sleep(wait_s)
        quiet_s += wait_s


async def log_stream(site: Site, request: Request) -> Response:
    found = await in_thread(site.find, request.path_params["run"])
    log = await in_thread(find_log, found, request.path_params["trial"])
    if not is_inside(log.path, found.folder.path):
        raise JobError(f"the log of trial {log.trial} is a link to a file elsewhere; it is not shown")
    return StreamingResponse(_lines(site, log), media_type="text/event-stream")


class _BrowserLeftError(Exception):
    """Ends a thread that follows a log."""


async def _lines(site: Site, log: TrialLog) -> AsyncIterator[str]:
    """A trial may print nothing for hours: the thread that waits for it ends when the browser leaves."""
    left = threading.Event()

    def wait(seconds: float) -> None:
        if left.wait(seconds) or site.ending.is_set():
            raise _BrowserLeftError

    iterator, limiter = log.follow(wait), CapacityLimiter(1)  # not of the threads that answer requests
    try:
        while (line := await in_thread(next, iterator, None, limiter=limiter)) is not None:
            yield _event("line", line)
        yield _event("end", {})
    except ElastuneError as error:
        yield _event("trouble", {"error": str(error)})
    except _BrowserLeftError:
        pass
    finally:
        left.set()
