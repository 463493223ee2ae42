"""This process as a driver of Ray: how to get into a guarded cluster, and to leave without a trace."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from elastune.providers.local.folder import Folder

_LOGGER = logging.getLogger("elastune.ray")
_MISLEADING = frozenset(
    {"RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_GCS_SERVER_PORT", "RAY_REDIS_ADDRESS", "RAY_RUNTIME_ENV_HOOK"}
)
"""Settings for some other cluster of the user's, which would win over ours."""

_PATIENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""For the driver alone: when the head is gone Ray ends the process, after a minute by default. That is for
the run to decide, which sees its nodes lost at once."""


def ray_environment(folder: Folder, base: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every process of a fleet runs, and the driver while it is connected."""
    kept = {name: value for name, value in base.items() if name not in _MISLEADING}
    return kept | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder.token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # which means, of all things: stay on 127.0.0.1
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # a head that is gone does not come back
        "RAY_enable_pipe_based_agent_to_parent_health_check": "1",
    }


class Connection:
    """Connects on creation. `close` puts back all that was changed for it."""

    def __init__(self, folder: Folder, address: str) -> None:
        from ray._private import ray_constants, worker  # noqa: PLC0415 - heavy

        self._undo = contextlib.ExitStack()
        self._undo.callback(_forget_token)
        self._undo.callback(_replace_environment, dict(os.environ))
        _replace_environment(ray_environment(folder, os.environ) | _PATIENT)
        # Ray prints what its nodes complain about on standard output, where the run's own output goes.
        self._set(worker, "print_to_stdstream", _log)
        # Ray may have been imported before the environment said so: 127.0.0.1 is meant as it stands.
        self._set(ray_constants, "ENABLE_RAY_CLUSTER", False)
        try:
            _forget_token()
            connect_quietly(address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        import ray  # noqa: PLC0415

        ray.shutdown()
        self._undo.close()

    def _set(self, where: ModuleType, name: str, value: object) -> None:
        self._undo.callback(setattr, where, name, getattr(where, name))
        setattr(where, name, value)


def connect_quietly(address: str) -> None:
    """`ray.init` without its output, and without its handler for SIGTERM, which is not its to take."""
    import ray  # noqa: PLC0415

    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if in_main else None
    try:
        ray.init(
            address=address,
            namespace="elastune",
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
        )
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _log(data: Mapping[str, Any], **_: Any) -> None:
    _LOGGER.info("%s", "\n".join(data.get("lines", ())))


def _replace_environment(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def _forget_token() -> None:
    """Ray remembers mode and token for the life of the process; the next fleet has another one."""
    from ray._raylet import AuthenticationTokenLoader, Config  # noqa: PLC0415

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
