"""A gang as a process group of torch. Importing this module imports torch.

gloo has to be given the network interface that leads to an address: its own choice, that of the host's name,
may lead nowhere or, for workers on one machine, out of it.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

from elastune.errors import ExecutionError, InvariantError
from elastune.training.groups import Rendezvous
from elastune.wording import several

_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def interface_towards(host: str) -> str | None:
    """None: unknown, so the library has to choose."""
    address = _own_address_towards(host)
    if address is None:
        return None
    if ipaddress.ip_address(address).is_loopback:
        return "lo0" if sys.platform == "darwin" else "lo"
    return next((name for _, name in socket.if_nameindex() if _address_of(name) == address), None)


def _own_address_towards(host: str) -> str | None:
    """The source address of packets to `host`; sends nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0]).partition("%")[0]
    return None


def _address_of(name: str) -> str | None:
    if sys.platform != "linux":
        return None
    import fcntl  # noqa: PLC0415  not on every platform

    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    return None


# Forming has its own, short timeout. Afterwards a lost peer is seen at once, by its closed connection; a slow
# one is not an error, and the runtime detects one that hangs.
_PATIENCE = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    host: str
    port: int
    rank: int
    size: int
    timeout_s: float
    interface: str | None
    backend: str


def form(meeting: Meeting, rendezvous: Rendezvous | None) -> TorchGroup:
    """Returns when all ranks are connected; raises after the timeout."""
    if dist.is_initialized():
        raise InvariantError("this process is in a gang already; close its group first")
    if interface := meeting.interface or interface_towards(meeting.host):
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface
    try:
        return _connected(meeting, rendezvous)
    except (RuntimeError, ExecutionError) as error:
        seen = _first_line(error)
    # Raised outside of the handler: a caught error references the store, and so keeps its port.
    _leave()
    raise ExecutionError(
        f"rank {meeting.rank} of {meeting.size} could not form a gang at {meeting.host}:{meeting.port} "
        f"within {meeting.timeout_s:g} s ({seen}); "
        "a worker may be lost, or the machines cannot reach each other"
    )


def _connected(meeting: Meeting, rendezvous: Rendezvous | None) -> TorchGroup:
    timeout = timedelta(seconds=meeting.timeout_s)
    store = _open_store(meeting, rendezvous, timeout)
    _call_the_roll(store, meeting, timeout)
    # Ranks find each other by a name that counts the groups of their process. A group that failed while it
    # was formed stays counted, and its process would have another name for ever.
    distributed_c10d._world.group_count = 0  # noqa: SLF001
    hook = sys.excepthook
    dist.init_process_group(
        meeting.backend, store=store, rank=meeting.rank, world_size=meeting.size, timeout=timeout
    )
    sys.excepthook = hook  # torch wraps it each time
    group = TorchGroup(rank=meeting.rank, size=meeting.size)
    group.agree(0)  # a barrier
    distributed_c10d._set_pg_timeout(_PATIENCE)  # noqa: SLF001
    return group


def _call_the_roll(store: Any, meeting: Meeting, timeout: timedelta) -> None:
    """So that an error can name the missing ranks."""
    names = [f"here/{rank}" for rank in range(meeting.size)]
    store.set(names[meeting.rank], "")
    try:
        store.wait(names, timeout)
    except RuntimeError as error:
        missing = [str(rank) for rank, name in enumerate(names) if not store.check([name])]
        if not missing:
            raise
        raise ExecutionError(f"no message from rank {several(missing)}") from error


class TorchGroup:
    """The default process group of this process."""

    def __init__(self, *, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    def agree(self, word: int) -> int:
        tensor = torch.tensor([int(word)])
        with self._connection_errors():
            dist.broadcast(tensor, src=0)
        return int(tensor.item())

    def total(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            summed = value.detach().clone(memory_format=torch.contiguous_format)
            if summed.dtype is torch.bool:
                summed = summed.to(torch.int64)
            with self._connection_errors():
                dist.all_reduce(summed)
            return summed
        dtype = torch.int64 if isinstance(value, int) else torch.float64
        return self.total(torch.tensor(value, dtype=dtype)).item()

    def wrap(self, model: Any, options: Mapping[str, Any]) -> Any:
        if not any(parameter.requires_grad for parameter in model.parameters()):
            return model  # DDP refuses a model without trainable parameters
        return GangModel(model, **options)

    def close(self) -> None:
        _leave()

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            lost = f"rank {self.rank} of {self.size} lost the connection to a peer of its gang"
            raise ExecutionError(f"{lost}: {_first_line(error)}") from error


class GangModel(DistributedDataParallel):  # type: ignore[misc]  # torch is not type-checked
    """DDP with the interface of the model inside it: states and code do not depend on the gang size."""

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        return self.module.state_dict(*arguments, **options)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        return self.module.load_state_dict(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(self.module, name)


def _open_store(meeting: Meeting, rendezvous: Rendezvous | None, timeout: timedelta) -> Any:
    address = (meeting.host, meeting.port, meeting.size)
    if rendezvous is None:
        return dist.TCPStore(*address, is_master=False, timeout=timeout)
    # By default the store would listen on all interfaces; it takes our socket, and closes it.
    ours = {"wait_for_workers": False, "master_listen_fd": rendezvous.take()}
    return dist.TCPStore(*address, is_master=True, timeout=timeout, **ours)


# If DDP held the last reference to a group, gloo would be shut down by a thread that has the interpreter's
# lock, and would wait for one of its own threads, which needs this lock to release a tensor: a deadlock. So a
# group that was left is held until gloo's threads are idle.
_IDLE_S = 0.5
_retired: list[Any] = []


def _leave() -> None:
    with suppress(RuntimeError, ValueError, AssertionError):
        if dist.is_initialized():
            _retired.append(distributed_c10d._get_default_group())  # noqa: SLF001
            dist.destroy_process_group()
            release = threading.Timer(_IDLE_S, _retired.pop, args=(0,))
            release.daemon = True
            release.start()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
