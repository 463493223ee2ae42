"""A Ray head of one run that other machines reach, and the lease of the nodes that join it.

The head is a child of a supervisor process and ends with the driver. Its key-value store holds the lease: how
many seconds nodes may live from now on, written again every few seconds. A node counts them by its own clock
from the moment it reads another text, so the clocks of the machines may differ.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import logging
import os
import socket
import threading
import time

from elastune.errors import ElastuneError, ExecutionError, InvariantError, JobError
from elastune.providers.local import link
from elastune.providers.local.link import Connection, SupervisorLink, SupervisorTask
from elastune.providers.local.processes import FleetFolder
from elastune.providers.protocol import ProviderSetting
from elastune.providers.remote.node import LEASE_KEY, NAMESPACE

_log = logging.getLogger("elastune")

LEASE_S = 300.0
"""How long nodes live without a driver if they can reach the head, and if the budget lasts."""
_RENEW_S = 5.0
_PATIENCE_S = 120.0
"""For the head to come up."""


def own_address(given: str | None, towards: str) -> str:
    """The address of this machine as nodes reach it: the given one, else that of the interface through which
    packets to the machine `towards` leave. Nothing is sent."""
    name = given or towards
    try:
        found = socket.getaddrinfo(name, 9, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
        if given is not None:
            return str(found[0])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(found)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise JobError(
            f"{name} cannot be found from this machine ({error}); expected cluster.options.address with the "
            "address of this machine at which the nodes reach it"
        ) from None


class RemoteHead:
    """Open it before use. `host`: the address of this machine, as nodes reach it; `ports`: the range in which
    it listens, None: any."""

    def __init__(self, setting: ProviderSetting, host: str, ports: tuple[int, int] | None = None) -> None:
        # Ray replaces 127.0.0.1 by another address of the machine. For nodes on this machine only.
        self.host = "127.0.0.2" if ipaddress.ip_address(host) == ipaddress.ip_address("127.0.0.1") else host
        self.address: str | None = None
        self._setting = setting
        self._ports = ports
        self._answered = threading.Event()
        self._ends = threading.Event()
        self._folder: FleetFolder | None = None
        self._link: SupervisorLink | None = None
        self._connection: Connection | None = None
        self._renewer: threading.Thread | None = None
        self._numbers = itertools.count(1)
        self._ended: str | None = None

    @property
    def broken(self) -> str | None:
        """Why it is gone."""
        return self._ended

    @property
    def token(self) -> str:
        """What Ray asks of every connection."""
        if self._folder is None:
            raise InvariantError("the head is not open, so it has no token")
        return self._folder.token.read_text(encoding="ascii")

    def open(self) -> None:
        self._folder = FleetFolder.make(self._setting.run)
        try:
            task = SupervisorTask(
                folder=str(self._folder.path),
                driver=os.getpid(),
                cpus=0.0,
                gpus=0.0,
                expires_s=None,
                host=self.host,
                ports=self._ports,
            )
            self._link = SupervisorLink(task, self._folder, on_news=self._learn, on_end=self._break_off)
            self._connection = Connection(self._folder, self._await_address(), self.host)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, ElastuneError):
                raise ExecutionError(f"the Ray head at {self.host} cannot be used: {error}") from error
            raise
        self._renewer = threading.Thread(target=self._renew, name="elastune-lease", daemon=True)
        self._renewer.start()

    def _await_address(self) -> str:
        if not self._answered.wait(_PATIENCE_S) or self.address is None:
            why = self._ended or f"nothing happened for {_PATIENCE_S:.0f} s"
            raise ExecutionError(f"a Ray head at {self.host} did not come up: {why}")
        return self.address

    def close(self) -> None:
        """May be repeated."""
        self._ends.set()
        self._ended = self._ended or "the head is closed"
        renewer, connection, supervisor = self._renewer, self._connection, self._link
        self._renewer = self._connection = self._link = None
        if renewer is not None:
            renewer.join(_RENEW_S)
        try:
            if connection is not None:
                connection.close()
        finally:
            if supervisor is not None:
                supervisor.close()
            if self._folder is not None:
                self._folder.remove()

    def lease_s(self) -> float | None:
        """For how long nodes may live from now on; None: not known yet."""
        until_s = self._setting.lease()
        return None if until_s is None else min(LEASE_S, until_s - self._setting.clock())

    def _renew(self) -> None:
        while not self._ends.is_set():
            with contextlib.suppress(Exception):  # the head is gone: `broken` says so
                self._write_lease()
            self._ends.wait(_RENEW_S)

    def _write_lease(self) -> None:
        from ray._private.worker import global_worker  # noqa: PLC0415 - heavy

        left_s = self.lease_s()
        if left_s is None:
            return
        lease = {"number": next(self._numbers), "left_s": left_s, "wall": time.time()}
        client = global_worker.gcs_client
        client.internal_kv_put(LEASE_KEY, json.dumps(lease).encode(), True, NAMESPACE)

    def _learn(self, news: link.News) -> None:
        match news:
            case link.Opened(address=address):
                self.address = address
                self._answered.set()
            case link.Failed(reason=reason):
                self._ended = reason
            case _:
                pass

    def _break_off(self, last_line: str) -> None:
        if self._ended is None:
            self._ended = f"Ray's head ended{': ' if last_line else ''}{last_line}"
            _log.error("%s", self._ended)
        self._answered.set()
