"""A real dashboard on a free port, in a thread, and requests to it as a browser or an enemy sends them."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from elastune.dashboard.app import make_app
from elastune.dashboard.guard import HEADER, Access
from elastune.dashboard.protocol import configuration
from elastune.dashboard.server import bind
from elastune.dashboard.site import Site
from tests.waiting import PATIENCE_S, wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        """Strictly: NaN and infinity are no JSON."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} in JSON")

        return json.loads(self.body, parse_constant=refuse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    site: Site

    @property
    def access(self) -> Access:
        return self.site.access

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.access.port}"

    @property
    def base(self) -> str:
        return f"http://{self.host}"

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"{self.access.cookie}={self.access.token}"}

    @property
    def trusted(self) -> dict[str, str]:
        """What a page of ours sends with a request that changes something."""
        return {**self.cookie, "origin": self.base, HEADER: self.access.change_token}

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: object = None,
        *,
        timeout_s: float = PATIENCE_S,
    ) -> Reply:
        """The path goes out as it is written."""
        connection = http.client.HTTPConnection("127.0.0.1", self.access.port, timeout=timeout_s)
        try:
            connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
            payload = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            for name, value in {**headers, "content-length": str(len(payload))}.items():
                connection.putheader(name, value)
            connection.endheaders(payload)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(status=answer.status, headers=found, body=answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.send("GET", path, self.cookie)

    def post(self, path: str, body: object) -> Reply:
        return self.send("POST", path, self.trusted, body)

    def first_event(self, path: str) -> tuple[str, Any]:
        """The first event of a stream, which is then left."""
        connection = http.client.HTTPConnection("127.0.0.1", self.access.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers=self.cookie)
            answer = connection.getresponse()
            assert answer.status == 200
            name = answer.readline().decode().removeprefix("event: ").strip()
            return name, json.loads(answer.readline().decode().removeprefix("data: "))
        finally:
            connection.close()


@contextlib.contextmanager
def served(root: Path, *, read_only: bool = False, **changes: Any) -> Iterator[Served]:
    listening = bind("127.0.0.1", 0)
    access = Access(host="127.0.0.1", port=listening.getsockname()[1], read_only=read_only)
    site = Site(root=root, access=access, **{"folder": root, **changes})
    config = configuration(make_app(site))
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_until(lambda: server.started, "the dashboard did not start")
        yield Served(site=site)
    finally:
        site.ending.set()
        server.should_exit = True
        thread.join()
        listening.close()
