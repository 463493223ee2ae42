"""This process as a driver of a Ray cluster that somebody else started."""

from __future__ import annotations

import os
import socket

from elastune.errors import ExecutionError
from elastune.providers.local.connection import connect_quietly

_REACH_S = 5.0


class Joining:
    """Connects, unless this process is connected already; leaves only what it has joined."""

    def __init__(self, address: str) -> None:
        import ray  # noqa: PLC0415 - heavy

        self._connected = False
        if ray.is_initialized():
            return
        refuse_unreachable(address)
        try:
            connect_quietly(address)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if address == "auto" and "any running Ray instance" in str(error):
                raise ExecutionError(
                    "no Ray cluster runs on this machine; start its head with `ray start --head` (docs/"
                    "aws.md says how, with a token), or say where it is, host:port"
                ) from error
            hint = _token_hint()
            raise ExecutionError(f"the Ray cluster {address!r} cannot be used: {error}{hint}") from error
        self._connected = True

    @property
    def head(self) -> str:
        """host:port, as other machines reach it."""
        import ray  # noqa: PLC0415

        return str(ray.get_runtime_context().gcs_address)

    def leave(self) -> None:
        """May be repeated."""
        if self._connected:
            import ray  # noqa: PLC0415

            ray.shutdown()
        self._connected = False


def _token_hint() -> str:
    """The usual reason, which Ray does not tell."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return "; is the token in RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token, the cluster's own?"
    return "; if it asks for a token, set RAY_AUTH_MODE=token and put it into ~/.ray/auth_token"


def refuse_unreachable(address: str) -> None:
    """Ray would try for many minutes."""
    expected = "expected host:port of a running Ray cluster, or auto for the one on this machine"
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "://" in address:
        raise ExecutionError(f"the address {address!r} cannot be used, {expected}")
    try:
        socket.create_connection((host, int(port)), _REACH_S).close()
    except (OSError, OverflowError) as error:
        raise ExecutionError(f"nothing answers at {address!r} ({error}), {expected}") from error
