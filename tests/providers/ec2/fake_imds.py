"""The metadata service of an EC2 instance, second version: a token first, then what there is to know."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_TOKEN = "a-session-of-the-metadata-service"


class FakeImds:
    """`data` maps paths under `/latest/meta-data/` to texts, and may be changed at any time."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.asked = Counter[str]()
        """How often each path was read, also where the answer was none."""
        self.tokens = 0
        """How often a token was asked for: before every path, also while the service is silent."""
        self.silent = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[FakeImds]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        imds = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                imds.tokens += 1
                right = (
                    self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
                )
                self._answer(_TOKEN if right else None)

            def do_GET(self) -> None:
                if self.headers["X-aws-ec2-metadata-token"] != _TOKEN:
                    self._answer(None, status=401)
                    return
                path = self.path.removeprefix("/latest/meta-data/")
                imds.asked[path] += 1
                self._answer(imds.data.get(path))

            def _answer(self, text: str | None, *, status: int = 404) -> None:
                if imds.silent:
                    text, status = None, 503
                self.send_response(status if text is None else 200)
                self.end_headers()
                self.wfile.write((text or "").encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        return Handler
