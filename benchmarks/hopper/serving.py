"""A store of files that is far away: HTTP on this machine, with a limit per connection; bytes are counted."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 18
_RANGE = re.compile(r"bytes=(\d+)-(\d*)$")


class FarStore:
    """The files of a folder. `bytes_per_s` limits each connection."""

    def __init__(self, folder: Path, bytes_per_s: float) -> None:
        self.folder = folder
        self.bytes_per_s = bytes_per_s
        self._lock = threading.Lock()
        self._sent = 0
        outer = self

        class Handler(_Handler):
            store = outer

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def sent_bytes(self) -> int:
        with self._lock:
            return self._sent

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{name}"

    def count(self, size: int) -> None:
        with self._lock:
            self._sent += size

    @contextlib.contextmanager
    def serving(self) -> Iterator[FarStore]:
        thread = threading.Thread(target=self._server.serve_forever, name="far store", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: FarStore

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = self.store.folder / Path(self.path.partition("?")[0]).name
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        asked = _RANGE.match(self.headers.get("Range", ""))
        start, end = 0, size
        if asked:
            start, end = int(asked[1]), min(size, int(asked[2]) + 1 if asked[2] else size)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        if with_body:
            with contextlib.suppress(ConnectionError):
                self._send(path, start, end)

    def _send(self, path: Path, start: int, end: int) -> None:
        began, left = time.monotonic(), end - start
        with path.open("rb") as file:
            file.seek(start)
            while left and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                self.wfile.write(chunk)
                self.store.count(len(chunk))
                ahead_s = (end - start - left) / self.store.bytes_per_s - (time.monotonic() - began)
                time.sleep(max(0.0, ahead_s))

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002  the name of the library
        """Requests are counted, not printed."""
