"""The way to moto's EC2 for processes other than this one: it adds what moto lacks, and fails on request.

moto launches as few as it may and forgets client tokens; EC2 launches as many as it can, and nothing twice.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.waiting import PATIENCE_S

Fault = Callable[[dict[str, str]], tuple[str, str] | None]
"""From the arguments of a call (`Action` among them) to the code and message of a refusal, or None."""


class Gate:
    def __init__(self, moto: str) -> None:
        self.fault: Fault = lambda call: None
        self.console: Callable[[str], str] = lambda instance: ""
        """What an instance has printed."""
        self.launches: list[dict[str, str]] = []
        """What was asked for, of calls that were heard."""
        self._answers: dict[str, tuple[int, bytes]] = {}
        self._moto = urlsplit(moto)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def open(self) -> Iterator[Gate]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _answer(self, call: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
        if (refusal := self.fault(call)) is not None:
            return 403, _refused(*refusal)
        if call["Action"] == "GetConsoleOutput":
            return 200, _console(self.console(call["InstanceId"]))
        if call["Action"] != "RunInstances" or call.get("DryRun") == "true":
            return self._forward(call, headers)
        token = call["ClientToken"]
        if token not in self._answers:
            self.launches.append(call)
            self._answers[token] = self._forward({**call, "MinCount": call["MaxCount"]}, headers)
        return self._answers[token]

    def _forward(self, call: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(
            self._moto.hostname or "", self._moto.port, timeout=PATIENCE_S
        )
        try:
            connection.request("POST", "/", urlencode(call), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                call = {key: values[0] for key, values in parse_qs(body, keep_blank_values=True).items()}
                kept = ("Authorization", "Content-Type", "X-Amz-Date", "X-Amz-Security-Token")
                headers = {name: self.headers[name] for name in kept if self.headers[name]}
                status, answer = gate._answer(call, headers)
                self.send_response(status)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        return Handler


def _refused(code: str, message: str) -> bytes:
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>0</RequestID></Response>"
    ).encode()


def _console(text: str) -> bytes:
    output = base64.b64encode(text.encode()).decode()
    return f"<GetConsoleOutputResponse><output>{output}</output></GetConsoleOutputResponse>".encode()
