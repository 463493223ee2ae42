"""The local provider: a roster in the driver, and a supervisor process that starts and ends the nodes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Mapping

from elastune.errors import ElastuneError, ExecutionError, InvariantError, JobError
from elastune.model.ids import NodeId
from elastune.providers.local import link
from elastune.providers.local.link import Connection, SupervisorLink, SupervisorTask
from elastune.providers.local.processes import FLEET, FleetFolder, can_look, tagged
from elastune.providers.local.roster import Roster
from elastune.providers.protocol import ProviderSetting, Survey
from elastune.providers.ray_cluster import FinalCheck, RayProviderBase

_PATIENCE_S = 60.0
"""For the head to come up. It takes about a second, or several on a busy machine."""
_MOST_LOGS = 4


class LocalProvider(RayProviderBase):
    """Rents Ray nodes on this machine. Their slots are logical: Ray accepts any CPUs and GPUs for a node.

    The fleet ends with its driver. So a new driver of a resumed run finds nothing, all nodes of the old one
    are lost, and a token that was not answered is a new request.
    """

    def __init__(self, setting: ProviderSetting, *, slot_gpus: int = 0, slot_cpus: int = 1) -> None:
        if setting.expires_s is not None and not setting.expires_s > 0.0:
            raise JobError(
                f"nodes expire after {setting.expires_s} s, expected more than 0, or none for never"
            )
        super().__init__(setting, slot_cpus, slot_gpus)
        self._roster = Roster()
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._address: str | None = None
        self._end_reason: str | None = None
        self._folder: FleetFolder | None = None
        self._link: SupervisorLink | None = None
        self._connection: Connection | None = None
        self._boot_logs: dict[NodeId, str] = {}
        self._has_come_up = False

    def open(self) -> None:
        """Start supervisor and head, and connect this process to the head."""
        if self._folder is not None:
            raise InvariantError("the local provider is open already, or was; make a new one")
        refuse_if_connected()
        self._folder = FleetFolder.make(self._setting.run)
        try:
            self._link = self._start_supervisor(self._folder)
            _import_ray()  # while the supervisor does the same
            address = self._await_head()
            self._connection = Connection(self._folder, address)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, ElastuneError):
                raise ExecutionError(f"the local Ray cluster cannot be used: {error}") from error
            raise

    def close(self) -> None:
        """Disconnect from Ray, end all nodes, remove the folder. May be repeated."""
        connection, supervisor, folder = self._connection, self._link, self._folder
        self._connection = self._link = None
        with self._lock:
            self._end_reason = self._end_reason or "the local cluster is closed"
            self._give_up(self._roster.booting())
        try:
            if connection is not None:
                connection.close()
        finally:
            if supervisor is not None:
                supervisor.close()
            if folder is not None:
                folder.remove()

    def request(self, token: str, count: int) -> None:
        supervisor = self._opened()
        with self._lock:
            room, reason = self._room()
            nodes = self._roster.order(token, count, room=room, reason=reason)
        if nodes:
            supervisor.send(link.StartNode(token=token, nodes=nodes))

    def survey(self) -> Survey:
        self._opened()
        with self._lock:
            return self._roster.survey(self._setting.clock())

    def release(self, nodes: Collection[NodeId]) -> None:
        supervisor = self._opened()
        with self._lock:
            self._give_up(nodes)
            known = self._roster.drop(nodes)
        if known:
            supervisor.send(link.EndNode(nodes=known))

    def ray_node(self, node: NodeId) -> str | None:
        with self._lock:
            return self._roster.ray_node(node)

    def resources(self) -> tuple[float, float]:
        """The nodes are ours alone, so no CPUs are reserved: Ray takes half a second longer to place a worker
        where no CPU is left. GPUs are reserved, because Ray numbers them for the task that reserves them."""
        return 0.0, float(self._node_gpus)

    @property
    def broken(self) -> str | None:
        """Set when the supervisor or the head is gone."""
        with self._lock:
            return self._end_reason

    @property
    def is_elsewhere(self) -> bool:
        return False

    def final_check(self) -> FinalCheck | None:
        if self._folder is None or not can_look():
            return None
        return FinalCheck.now(tuple(f"process {pid}" for pid in self.pids), "processes of this machine")

    @property
    def address(self) -> str | None:
        """Of the cluster, once it is open."""
        return self._address

    @property
    def pids(self) -> tuple[int, ...]:
        """Every process of the fleet, the supervisor's first."""
        if self._folder is None:
            return ()
        found = tagged(FLEET, str(self._folder.path))
        supervisor = self._link.pid if self._link is not None else None
        return tuple(sorted(found, key=lambda pid: (pid != supervisor, pid)))

    def _opened(self) -> SupervisorLink:
        if self._link is None:
            raise InvariantError(
                "the local provider is not open: call open() before, and nothing after close()"
            )
        return self._link

    def _room(self) -> tuple[int, str]:
        most = self._setting.terms.max_nodes
        if self._end_reason is not None:
            return 0, self._end_reason
        return most - self._roster.held, f"at most {most} nodes"

    def _start_supervisor(self, folder: FleetFolder) -> SupervisorLink:
        task = SupervisorTask(
            folder=str(folder.path),
            driver=os.getpid(),
            cpus=float(self._node_cpus),
            gpus=float(self._node_gpus),
            expires_s=self._setting.expires_s,
        )
        return SupervisorLink(task, folder, on_news=self._learn, on_end=self._break_off)

    def _await_head(self) -> str:
        if not self._answered.wait(_PATIENCE_S):
            raise ExecutionError(
                f"the local Ray cluster did not come up within {_PATIENCE_S:.0f} s; "
                "the machine may be too busy: try again, or use fewer slots"
            )
        with self._lock:
            if self._address is None or self._end_reason is not None:
                raise ExecutionError(f"the local Ray cluster did not come up: {self._end_reason}")
            return self._address

    def _learn(self, news: link.News) -> None:
        """Called in the thread that reads from the supervisor. Events get the time of their arrival."""
        with self._lock:
            now_s = self._setting.clock()
            match news:
                case link.Opened(address=address):
                    self._address = address
                    self._answered.set()
                case link.Failed(reason=reason):
                    self._end_reason = reason
                case link.Begun(token=token):
                    self._roster.begin(token, now_s)
                case link.NodeStarted(token=token, nodes=nodes, reason=reason):
                    self._roster.start(token, [NodeId(node) for node in nodes], reason=reason)
                case link.Up(node=node, ray_node=ray_node):
                    self._has_come_up = True
                    self._roster.come_up(NodeId(node), ray_node, now_s)
                case link.Gone(node=node):
                    self._keep_log(NodeId(node))
                    self._roster.drop([NodeId(node)])

    def boot_logs(self) -> Mapping[NodeId, str]:
        with self._lock:
            return dict(self._boot_logs)

    def _give_up(self, nodes: Collection[NodeId]) -> None:
        """They end before they are up. Without one that came up, the reason is of interest."""
        for node in () if self._has_come_up else nodes:
            self._keep_log(node)

    def _keep_log(self, node: NodeId) -> None:
        """Of a node that was not up: the folder with its log will be removed."""
        if self._folder is not None and node in self._roster.booting() and len(self._boot_logs) < _MOST_LOGS:
            self._boot_logs[node] = self._folder.node_log(node)

    def _break_off(self, last_line: str) -> None:
        """The supervisor has ended, and all its nodes with it; `last_line`: of its log."""
        with self._lock:
            why = f": {last_line}" if last_line else ""
            self._end_reason = self._end_reason or f"the supervisor of the local nodes ended{why}"
            self._give_up(self._roster.booting())
            self._roster.break_off(self._end_reason)
            self._answered.set()


def refuse_if_connected() -> None:
    """A process is connected to one Ray cluster at a time."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        raise ExecutionError(
            "this process is connected to a Ray cluster already, expected none: to run on that one, attach "
            "to it (--address auto, in Python address='auto'); to run on nodes of our own, leave out "
            "ray.init(), or call ray.shutdown() before"
        )


def _import_ray() -> None:
    try:
        import ray  # noqa: F401, PLC0415 - heavy
    except ImportError as error:
        raise ExecutionError(
            f"local nodes need Ray, which cannot be imported ({error}): pip install 'elastune[ray]'"
        ) from error
