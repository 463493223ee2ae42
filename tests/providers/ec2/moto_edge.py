"""moto's EC2 behind an edge that adds what moto lacks: client tokens, capacity, lag, and failures.

The edge sits where boto3 is about to send a request (`before-send`), so all above it, down to the wording of
each call, is what AWS would get. What is not held up goes on to moto over HTTP.
"""

from __future__ import annotations

import http.client
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from tests.aws import models_read_once
from tests.waiting import PATIENCE_S

Fault = Callable[[str, dict[str, str]], tuple[int, str] | None]
"""From an action and its arguments to the status and the code of a failure, or None."""

_MESSAGE = "by the edge"


class _Raw:
    """What botocore reads an answer from."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self._body

    def read(self, *_: object) -> bytes:
        body, self._body = self._body, b""
        return body


class Edge:
    """`fault` may fail a call before it is heard; `unanswered` one that was."""

    def __init__(self, fault: Fault | None = None, unanswered: Fault | None = None) -> None:
        self.fault: Fault = fault or (lambda action, arguments: None)
        self.unanswered: Fault = unanswered or (lambda action, arguments: None)
        self.message = _MESSAGE
        """Of a failure."""
        self.sent: list[tuple[str, dict[str, str]]] = []
        self.capacity: Callable[[dict[str, str]], int] = lambda arguments: int(arguments["MaxCount"])
        self._launched: dict[str, tuple[dict[str, str], int, bytes]] = {}
        self._numbers = itertools.count()

    def install(self, client: Any) -> None:
        client.meta.events.register("before-send.ec2.*", self._send)

    def _send(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        body = request.body.decode() if isinstance(request.body, bytes) else str(request.body)
        arguments = {key: values[0] for key, values in parse_qs(body, keep_blank_values=True).items()}
        action = arguments["Action"]
        self.sent.append((action, arguments))
        failure = self.fault(action, arguments)
        if failure is not None:
            return failed(request, *failure, self.message)
        status, answer = self._hear(request, action, arguments)
        failure = self.unanswered(action, arguments)
        if failure is not None:
            return failed(request, *failure, self.message)
        return _answered(request, status, answer)

    def _hear(self, request: AWSPreparedRequest, action: str, arguments: dict[str, str]) -> tuple[int, bytes]:
        if action != "RunInstances" or arguments.get("DryRun") == "true":
            return forward(request, arguments)
        token = arguments["ClientToken"]
        if token in self._launched:
            before, status, answer = self._launched[token]
            if before == arguments:
                return status, answer
            return 400, _error("IdempotentParameterMismatch")
        count = min(self.capacity(arguments), int(arguments["MaxCount"]))
        if count < 1:
            return 400, _error("InsufficientInstanceCapacity")
        status, answer = forward(request, {**arguments, "MinCount": str(count), "MaxCount": str(count)})
        if status == 200:
            self._launched[token] = (arguments, status, answer)
        return status, answer


def forward(request: AWSPreparedRequest, arguments: dict[str, str]) -> tuple[int, bytes]:
    where = urlsplit(request.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    headers = {
        key: value.decode() if isinstance(value, bytes) else value
        for key, value in request.headers.items()
        if key.lower() not in {"content-length", "expect"}
    }
    try:
        connection.request("POST", where.path or "/", urlencode(arguments), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _answered(request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
    return AWSResponse(request.url, status, {"Content-Type": "text/xml"}, _Raw(body))


def failed(request: AWSPreparedRequest, status: int, code: str, message: str = _MESSAGE) -> AWSResponse:
    return _answered(request, status, _error(code, message))


def _error(code: str, message: str = _MESSAGE) -> bytes:
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>0</RequestID></Response>"
    ).encode()


@contextmanager
def moto_server() -> Iterator[str]:
    """The address of a moto on loopback, without its log."""
    import logging  # noqa: PLC0415

    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with models_read_once():
            yield f"http://{host}:{port}"
    finally:
        server.stop()


def user_data_of(arguments: dict[str, str]) -> str:
    import base64  # noqa: PLC0415

    return base64.b64decode(arguments["UserData"]).decode()


def codes(text: str) -> list[str]:
    return re.findall(r"<Code>(.*?)</Code>", text)
