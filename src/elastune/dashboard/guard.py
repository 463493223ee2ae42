"""Who may see the dashboard, and who may change something.

A token opens it: printed once with the address, kept in a file that only the user can read, and then in a
cookie. A request that changes something also needs a second token, which pages have, in a header that no
other site can send, and the page's own origin. The name of the host is checked, so that no other name can
lead here.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elastune.user_home import user_home

HEADER = "x-elastune-token"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_SAFE = frozenset({"GET", "HEAD"})
# They take a job in the body of the request, and change nothing.
_QUESTIONS = frozenset({"/api/quote", "/api/job"})
# Plots set styles of elements; no script but our own files runs.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`host` is what the server is bound to; `read_only`: nothing can be changed by anybody."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    read_only: bool = False

    @property
    def is_local(self) -> bool:
        return self.host in _LOCAL or _is_loopback(self.host)

    @property
    def cookie(self) -> str:
        """Browsers do not tell ports apart, so the name does."""
        return f"elastune_{self.port}"

    @property
    def address(self) -> str:
        shown = "127.0.0.1" if self.host == "localhost" else self.host
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{self.port}/"

    @property
    def change_token(self) -> str:
        """In pages, for requests that change something. It does not open the dashboard."""
        return hmac.new(self.token.encode(), b"change", hashlib.sha256).hexdigest()

    def is_token(self, given: str | None) -> bool:
        return _same(given, self.token)

    def is_change_token(self, given: str | None) -> bool:
        return _same(given, self.change_token)

    def knows_host(self, header: str) -> bool:
        """Bound to all addresses, any address fits, but no name except that of this machine."""
        name = (urlsplit(f"//{header}").hostname or "").lower()
        if name in _LOCAL or name == self.host.lower():
            return True
        if self.host in {"0.0.0.0", "::"}:  # noqa: S104  it is compared, not bound
            with suppress(ValueError):
                ipaddress.ip_address(name)
                return True
            return name == os.uname().nodename.lower()
        return False


def _same(given: str | None, expected: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), expected.encode())


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def keep_token(access: Access) -> Path | None:
    """In a file that only the user can read; None: the user has no home."""
    home = user_home()
    if home is None:
        return None
    path = home / f"dashboard-{access.port}.token"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(access.token)
    except OSError:
        return None
    return path


class Guard:
    """Stands before all routes."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                fresh = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(each for each in fresh if each[0] not in known)]
            await send(message)

        answer = self._answer(Request(scope))
        await (answer or self._app)(scope, receive, with_headers)

    def _answer(self, request: Request) -> Response | None:
        """None: the request may go on."""
        access = self._access
        if not access.knows_host(request.headers.get("host", "")):
            return PlainTextResponse("this dashboard is not at that name; use the address it printed", 421)
        if request.url.path.startswith("/static/") and request.method in _SAFE:
            return None
        if request.method in _SAFE and access.is_token(request.query_params.get("token")):
            return self._admit(request)
        if not access.is_token(request.cookies.get(access.cookie)):
            text = "open the address with the token that `elastune dashboard` printed when it started"
            return PlainTextResponse(text, 403)
        if request.method in _SAFE:
            return None
        return self._refuse_change(request)

    def _admit(self, request: Request) -> Response:
        """The token leaves the address at once: it is in no history, referrer or bookmark."""
        left = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
        path = "/" + request.url.path.lstrip("/\\")  # two slashes would lead to another site
        answer = RedirectResponse(f"{path}?{urlencode(left)}" if left else path, 303)
        answer.set_cookie(
            self._access.cookie, self._access.token, httponly=True, samesite="strict", max_age=30 * 86400
        )
        return answer

    def _refuse_change(self, request: HTTPConnection) -> Response | None:
        access = self._access
        if access.read_only and request.url.path not in _QUESTIONS:
            return PlainTextResponse("this dashboard is read-only", 403)
        origin = request.headers.get("origin")
        if origin is None or urlsplit(origin).netloc != request.headers.get("host"):
            return PlainTextResponse("the request comes from another site", 403)
        if not access.is_change_token(request.headers.get(HEADER)):
            return PlainTextResponse(f"the header {HEADER} is missing or wrong; reload the page", 403)
        return None
