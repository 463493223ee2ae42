"""Models from node to node over a connection of their own, from the shared memory of one node into that of
another.

Through Ray's object store a model is copied into the store, in pieces through both raylets, and out of it
again, which costs four times the processor time. Where nodes cannot connect to each other's ports, models
take that way (`model_transfer`).

A request is a token, which the agent sends to the driver with the name of each model, and the name. The
answer is the size, or -1 if the model is not there, and the bytes.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from elastune.runtime.ray.messages import GangId, ModelSource

_TOKEN_BYTES = 16
_REQUEST = struct.Struct(f"<{_TOKEN_BYTES}sqq")
_SIZE = struct.Struct("<q")
_ABSENT = -1
# To connect; and without a byte in between, for which a busy machine may be the reason.
_CONNECT_S = 5.0
SILENCE_S = 30.0
_BACKLOG = 64
_NO_PORT = 0


Read = Callable[[GangId], AbstractContextManager[memoryview]]
"""The bytes of a model, which stay as they are until the end of the context; `KeyError`: it is not here."""


class ModelServer:
    """Gives the models of a node to clients that have the token. `host` is the address by which others
    reach it. If that is no address of this machine, as behind a NAT, it has no port, and models take the
    other way."""

    def __init__(self, host: str, agent: str, read: Read, silence_s: float = SILENCE_S) -> None:
        self._read = read
        self._silence_s = silence_s
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener: socket.socket | None = None
        port = _NO_PORT
        with contextlib.suppress(OSError):
            self._listener = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
            port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), name="models", daemon=True).start()
        self.source = ModelSource(host=host, port=port, token=secrets.token_bytes(_TOKEN_BYTES), agent=agent)

    def close(self) -> None:
        if self._listener is None:
            return
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(self._silence_s)
            request = bytearray(_REQUEST.size)
            _receive(connection, memoryview(request))
            token, trial, generation = _REQUEST.unpack(request)
            if not hmac.compare_digest(token, self.source.token):
                return
            try:
                with self._read(GangId(trial, generation)) as view:
                    connection.sendall(_SIZE.pack(len(view)))
                    _send(connection, view)
            except KeyError:
                connection.sendall(_SIZE.pack(_ABSENT))


def receive_model(source: ModelSource, key: GangId, room: memoryview) -> None:
    """Raises `KeyError` if the model is not there, and `OSError` if the node cannot be reached."""
    if source.port == _NO_PORT:
        raise ConnectionRefusedError(f"{source.host} is no address of the node itself")
    with socket.create_connection((source.host, source.port), timeout=_CONNECT_S) as connection:
        connection.settimeout(SILENCE_S)
        receive_over(connection, source, key, room)


def receive_over(connection: socket.socket, source: ModelSource, key: GangId, room: memoryview) -> None:
    connection.sendall(_REQUEST.pack(source.token, key.trial, key.generation))
    size = bytearray(_SIZE.size)
    _receive(connection, memoryview(size))
    (found,) = _SIZE.unpack(size)
    if found == _ABSENT:
        raise KeyError(key)
    if found != len(room):
        raise OSError(f"the model has {found:,} bytes; expected {len(room):,}")
    _receive(connection, room)


def _send(connection: socket.socket, view: memoryview) -> None:
    """The time-out is for each piece; that of `sendall` is for the whole, which large models exceed."""
    while view:
        view = view[connection.send(view) :]


def _receive(connection: socket.socket, room: memoryview) -> None:
    end = 0
    while end < len(room):
        count = connection.recv_into(room[end:])
        if not count:
            raise ConnectionResetError(f"the connection ended after {end:,} of {len(room):,} bytes")
        end += count
