"""The network between the hosts of the rig: a switch in user space that delays, slows and loses what passes.

`python -m tests.hosts.wire SPACE...` makes a device `eth0` in each of these network namespaces, and joins
them. It reads orders from its standard input, a line each: `delay SECONDS`, `rate BITS`, `loss SHARE`,
`cut SPACE`, `mend SPACE`. A frame waits for those before it that leave the same host, and then for the delay.
Kernels without `netem` can do none of this. Frames are as large as the kernels like them (up to 64 KB), so
Python keeps up with a gigabit.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
_TAP, _NO_HEADER, _OFFLOADS_HEADER = 0x0002, 0x1000, 0x4000
_CHECKSUMS, _SEGMENTS4, _SEGMENTS6 = 0x01, 0x02, 0x04
_HEADER = 10
"""Of virtio, before each frame: what the kernel has left to the card."""
_NEW_NETWORK = 0x40000000
_BROADCAST = 1
_MOST_WAITING = 4000


@dataclass(slots=True)
class Port:
    """A host. `free_s`: when the frame before has left it."""

    space: str
    device: int
    is_cut: bool = False
    free_s: float = 0.0


@dataclass(slots=True)
class Switch:
    ports: list[Port]
    delay_s: float = 0.0
    bits_per_s: float = float("inf")
    loss: float = 0.0
    luck: random.Random = field(default_factory=lambda: random.Random(0))
    places: dict[bytes, Port] = field(default_factory=dict)
    """By address."""
    waiting: list[tuple[float, int, Port, bytes]] = field(default_factory=list)
    _number: int = 0

    def order(self, line: str) -> None:
        what, _, value = line.strip().partition(" ")
        match what:
            case "delay":
                self.delay_s = float(value)
            case "rate":
                self.bits_per_s = float(value)
            case "loss":
                self.loss = float(value)
            case "cut" | "mend":
                for port in self.ports:
                    port.is_cut = (what == "cut") if port.space == value else port.is_cut

    def take(self, port: Port, frame: bytes, now_s: float) -> None:
        target, source = frame[_HEADER : _HEADER + 6], frame[_HEADER + 6 : _HEADER + 12]
        self.places[source] = port
        if port.is_cut or self.luck.random() < self.loss or len(self.waiting) > _MOST_WAITING:
            return
        port.free_s = max(now_s, port.free_s) + len(frame) * 8.0 / self.bits_per_s
        known = None if target[0] & _BROADCAST else self.places.get(target)
        for each in [known] if known is not None else self.ports:
            if each is not port:
                self._number += 1
                heapq.heappush(self.waiting, (port.free_s + self.delay_s, self._number, each, frame))

    def deliver(self, now_s: float) -> None:
        while self.waiting and self.waiting[0][0] <= now_s:
            _, _, port, frame = heapq.heappop(self.waiting)
            if not port.is_cut:
                try:
                    os.write(port.device, frame)
                except OSError:  # its queue is full, or it is down: the frame is lost
                    continue

    def serve(self) -> None:
        """Until the standard input ends."""
        poll = select.epoll()
        by_device = {port.device: port for port in self.ports}
        for device in (0, *by_device):
            poll.register(device, select.EPOLLIN)
        while True:
            wait_s = -1.0 if not self.waiting else max(0.0, self.waiting[0][0] - time.monotonic())
            for device, _ in poll.poll(wait_s):
                if device == 0:
                    text = os.read(0, 4096).decode()
                    if not text:
                        return
                    for line in text.splitlines():
                        self.order(line)
                else:
                    self._read(by_device[device])
            self.deliver(time.monotonic())

    def _read(self, port: Port) -> None:
        for _ in range(64):
            try:
                frame = os.read(port.device, 70_000)
            except BlockingIOError:
                return
            self.take(port, frame, time.monotonic())


def open_device(space: str) -> int:
    """`eth0` in a network namespace. The device goes with this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", space).open() as there:
        if libc.setns(there.fileno(), _NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {space}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", b"eth0", _TAP | _NO_HEADER | _OFFLOADS_HEADER))
    fcntl.ioctl(device, _TUNSETVNETHDRSZ, struct.pack("i", _HEADER))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _CHECKSUMS | _SEGMENTS4 | _SEGMENTS6)
    return device


def main() -> None:
    switch = Switch([Port(space, open_device(space)) for space in sys.argv[1:]])
    sys.stdout.write("up\n")
    sys.stdout.flush()
    switch.serve()


if __name__ == "__main__":
    main()
