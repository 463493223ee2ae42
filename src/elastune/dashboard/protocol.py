"""HTTP for the dashboard: uvicorn's, which waits for the head of a request for ever, with an end to that.

Without it, some hundred connections that send nothing keep all browsers out.
"""

from __future__ import annotations

import asyncio

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 15.0
_STREAMS_END_S = 3


class PatientProtocol(H11Protocol):
    """Closes a connection whose next request has begun, or has never begun, and does not arrive."""

    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # the head is there
            self._rest()
        elif self._giving_up is None:
            self._giving_up = asyncio.get_running_loop().call_later(HEAD_S, self._give_up)

    def _rest(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        self._giving_up = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def configuration(app: ASGIApp) -> uvicorn.Config:
    """No log of requests: their addresses may have the token. No web sockets: there are none."""
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=_STREAMS_END_S,
    )
