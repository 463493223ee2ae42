"""A fixed list of machines as a pool: each becomes a node of the run by a command, and is itself again when
the command ends.

The command stays connected with the program on the machine (`remote/node.py`), which reads what it needs from
it and ends when it closes. So nodes end with their driver, and a new driver of a resumed run finds nothing.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from elastune.errors import InvariantError
from elastune.model.ids import NodeId
from elastune.providers.local.roster import Roster
from elastune.providers.protocol import ProviderSetting, Survey
from elastune.providers.ray_cluster import FinalCheck, RayLink, RayProviderBase
from elastune.providers.remote.brokered import BootResult, failed_in_a_row
from elastune.providers.remote.head import LEASE_S, RemoteHead
from elastune.providers.remote.node import NodeSpec

_log = logging.getLogger("elastune")

_FRESH_S = 0.5
"""A survey reuses a listing of Ray's nodes that is younger than this."""
_LAST_LINES = 20
_READ_S = 2.0
"""For what a command has printed before it ended."""
_SHUN_S = 60.0
"""A machine whose node did not come up is not tried again for so long, if others are free."""
_LINGER_S = 8.0
"""A node that was told to end may take so long; then its command is ended."""


@dataclass(slots=True)
class PoolNode:
    """A command that makes a machine a node."""

    place: str
    process: subprocess.Popen[bytes]
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    reader: threading.Thread | None = None

    def listen(self) -> None:
        self.reader = threading.Thread(target=self.read, name=f"elastune-{self.place}", daemon=True)
        self.reader.start()

    def last_line(self) -> str:
        """Once the command has ended."""
        if self.reader is not None:
            self.reader.join(_READ_S)
        return next((line for line in reversed(self.lines) if line.strip()), "no output")

    def read(self) -> None:
        """In a thread of its own: what the command prints."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line.decode(errors="replace").rstrip())


class PoolProvider(RayProviderBase):
    """`places` are the names of the machines; `command_of` says how the program is started on one.

    With a `ray_link`, for tests, no head is started.
    """

    def __init__(
        self,
        setting: ProviderSetting,
        slot_cpus: int,
        slot_gpus: int,
        *,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus)
        self._ray_link = ray_link
        self._is_linked = ray_link is not None
        self._head: RemoteHead | None = None
        self._roster = Roster()
        self._nodes: dict[NodeId, PoolNode] = {}
        self._ending: list[tuple[float, PoolNode]] = []
        self._shunned: dict[str, tuple[float, str]] = {}
        """Machines whose node did not come up: until when, and why."""
        self._noticed_s: dict[NodeId, float] = {}
        self._boot_logs: dict[NodeId, str] = {}
        self._boots: list[BootResult] = []
        """Those that are decided, in order."""
        self._looked_s: float | None = None
        self._is_open = False
        self._final_check: FinalCheck | None = None

    @property
    @abstractmethod
    def places(self) -> Sequence[str]: ...

    @abstractmethod
    def command_of(self, place: str) -> Sequence[str]:
        """Starts the program on a machine, with its standard input as the program's."""

    @abstractmethod
    def make_head(self) -> RemoteHead: ...

    def spec_of(self, node: NodeId, place: str) -> NodeSpec:
        head = self._head
        address, token = ("", "") if head is None else (head.address or "", head.token)
        return NodeSpec(
            head=address,
            token=token,
            node=node,
            run=self._setting.run,
            job=self._setting.job,
            cpus=self._node_cpus,
            gpus=self._node_gpus,
            lease_s=self._first_lease_s(),
        )

    def _first_lease_s(self) -> float:
        """Until the node has read one from the head."""
        until_s = self._setting.lease()
        return LEASE_S if until_s is None else max(0.0, min(LEASE_S, until_s - self._setting.clock()))

    # Open and close.

    def open(self) -> None:
        if self._is_open or self._final_check is not None:
            raise InvariantError("the provider is open already, or was; make a new one")
        if not self._is_linked:
            self._head = self.make_head()
            self._head.open()
            self._ray_link = RayLink()
        self._is_open = True

    def close(self) -> None:
        """End all nodes, and wait until their commands have ended. May be repeated."""
        was_open, self._is_open = self._is_open, False
        try:
            self._stop(tuple(self._nodes))
            until_s = time.monotonic() + _LINGER_S
            for _, node in self._ending:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    node.process.wait(max(0.1, until_s - time.monotonic()))
            self._reap(is_last=True)
        finally:
            if was_open:
                left = tuple(node.place for _, node in self._ending)
                self._final_check = FinalCheck.now(left, "connections to the machines")
            if self._head is not None:
                self._head.close()
                self._head = None

    def final_check(self) -> FinalCheck | None:
        return self._final_check

    # The methods of a provider.

    def request(self, token: str, count: int) -> None:
        self._opened()
        now_s = self._setting.clock()
        self._reap()
        free = self._free(now_s)
        most, room = self._setting.terms.max_nodes, len(free)
        reason = self._no_room(now_s)
        if most - self._roster.held < room:
            room, reason = most - self._roster.held, f"at most {most} nodes"
        nodes = self._roster.order(token, count, room=room, reason=reason)
        if not nodes:
            return
        self._roster.begin(token, now_s)
        self._roster.start(token, nodes)
        for node, place in zip(nodes, free, strict=False):
            self._launch(node, place)

    def survey(self) -> Survey:
        self._opened()
        self._reap()
        self._look_at_ray()
        survey = self._roster.survey(self._setting.clock())
        machines = (replace(each, until_s=self._noticed_s.get(each.node)) for each in survey.machines)
        return replace(survey, machines=tuple(machines))

    def release(self, nodes: Collection[NodeId]) -> None:
        self._opened()
        self._stop(self._roster.drop(nodes))

    # The additional methods for Ray.

    @property
    def broken(self) -> str | None:
        if (failed := failed_in_a_row(self._boots)) and self._roster.held == 0:
            last = self._boot_logs[NodeId(failed[-1])].splitlines()
            return f"{len(failed)} nodes in a row did not come up; the last, {last[0]}: {last[-1]}"
        return None if self._head is None else self._head.broken

    @property
    def is_elsewhere(self) -> bool:
        return True

    def ray_node(self, node: NodeId) -> str | None:
        return self._roster.ray_node(node)

    def boot_logs(self) -> Mapping[NodeId, str]:
        return dict(self._boot_logs)

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        return min(down_s, LEASE_S)

    # Private.

    def _opened(self) -> None:
        if not self._is_open:
            raise InvariantError("the provider is not open: call open() before, and nothing after close()")

    def _free(self, now_s: float) -> list[str]:
        """Those that failed lately come last, those that failed just now not at all."""
        taken = {node.place for node in self._nodes.values()}
        shunned = {place: until_s for place, (until_s, _) in self._shunned.items() if until_s > now_s}
        return [place for place in self.places if place not in taken and place not in shunned]

    def _no_room(self, now_s: float) -> str:
        text = f"there are {len(self.places)} machines, and {len(self._nodes)} of them were taken"
        failed = [f"{place}: {why}" for place, (until_s, why) in self._shunned.items() if until_s > now_s]
        return "; ".join([text, *failed])

    def _launch(self, node: NodeId, place: str) -> None:
        process = subprocess.Popen(  # noqa: S603
            self.command_of(place),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C in the terminal does not reach it
        )
        started = self._nodes[node] = PoolNode(place, process)
        started.listen()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: `_reap` sees that
            process.stdin.write(self.spec_of(node, place).encode().encode() + b"\n")
            process.stdin.flush()

    def _stop(self, nodes: Collection[NodeId]) -> None:
        """Closing its pipe tells the program to end."""
        for node in [node for node in nodes if node in self._nodes]:
            stopped = self._nodes.pop(node)
            assert stopped.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                stopped.process.stdin.close()
            self._ending.append((time.monotonic(), stopped))

    def _reap(self, *, is_last: bool = False) -> None:
        """Nodes whose command has ended are gone."""
        for node, started in tuple(self._nodes.items()):
            if started.process.poll() is None:
                continue
            is_up = self._roster.ray_node(node) is not None
            why = started.last_line()
            if not is_up:
                self._boots.append(self._boot_result(node, has_failed=True))
                _log.warning("%s on %s did not come up: %s", node, started.place, why)
                self._boot_logs[node] = "\n".join([f"on {started.place}", *started.lines])
                self._shunned[started.place] = (self._setting.clock() + _SHUN_S, why)
            self._stop([node])
            self._roster.drop([node])
        now, ending = time.monotonic(), []
        for since, stopped in self._ending:
            if stopped.process.poll() is None and (is_last or now - since > _LINGER_S):
                stopped.process.kill()
                stopped.process.wait()
            if stopped.process.poll() is None:
                ending.append((since, stopped))
        self._ending = ending

    def _boot_result(self, node: NodeId, *, has_failed: bool) -> BootResult:
        token = next(each.token for each in self._roster.survey(0.0).machines if each.node == node)
        return BootResult(node=node, token=token, is_up=not has_failed, has_failed=has_failed)

    def _look_at_ray(self) -> None:
        now_s = self._setting.clock()
        if self._ray_link is None or (self._looked_s is not None and 0 <= now_s - self._looked_s < _FRESH_S):
            return
        self._looked_s = now_s
        joined, leaving = self._ray_link.joined(), self._ray_link.leaving()
        booting = set(self._roster.booting())
        for name, ray_node in joined.items():
            node = NodeId(name)
            if node in booting:
                self._boots.append(self._boot_result(node, has_failed=False))
                self._roster.come_up(node, ray_node, now_s)
                self._shunned.pop(self._nodes[node].place, None)
            if ray_node in leaving:
                self._noticed_s.setdefault(node, leaving[ray_node] + now_s - time.time())
