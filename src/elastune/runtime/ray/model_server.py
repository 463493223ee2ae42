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
_SILENCE_S = 30.0
_BACKLOG = 64


Read = Callable[[GangId], AbstractContextManager[memoryview]]
"""The bytes of a model, which stay as they are until the end of the context; `KeyError`: it is not here."""


class ModelServer:
    """Gives the models of a node to clients that have the token. `host` is the address by which others
    reach it."""

    def __init__(self, host: str, agent: str, read: Read) -> None:
        self._read = read
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
        port = self._listener.getsockname()[1]
        self.source = ModelSource(host=host, port=port, token=secrets.token_bytes(_TOKEN_BYTES), agent=agent)
        threading.Thread(target=self._accept, name="model server", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_SILENCE_S)
            request = bytearray(_REQUEST.size)
            _receive(connection, memoryview(request))
            token, trial, generation = _REQUEST.unpack(request)
            if not hmac.compare_digest(token, self.source.token):
                return
            try:
                with self._read(GangId(trial, generation)) as view:
                    connection.sendall(_SIZE.pack(len(view)))
                    connection.sendall(view)
            except KeyError:
                connection.sendall(_SIZE.pack(_ABSENT))


def receive_model(source: ModelSource, key: GangId, room: memoryview) -> None:
    """Raises `KeyError` if the model is not there, and `OSError` if the node cannot be reached."""
    with socket.create_connection((source.host, source.port), timeout=_CONNECT_S) as connection:
        connection.settimeout(_SILENCE_S)
        connection.sendall(_REQUEST.pack(source.token, key.trial, key.generation))
        size = bytearray(_SIZE.size)
        _receive(connection, memoryview(size))
        (found,) = _SIZE.unpack(size)
        if found == _ABSENT:
            raise KeyError(key)
        if found != len(room):
            raise OSError(f"the model has {found:,} bytes; expected {len(room):,}")
        _receive(connection, room)


def _receive(connection: socket.socket, room: memoryview) -> None:
    end = 0
    while end < len(room):
        count = connection.recv_into(room[end:])
        if not count:
            raise ConnectionResetError(f"the connection ended after {end:,} of {len(room):,} bytes")
        end += count
