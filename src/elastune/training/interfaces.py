"""Which network interface leads to an address. gloo has to be told: by itself it takes that of the host's
name, which may lead nowhere or, for workers on one machine, out of it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import sys

_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def interface_towards(host: str) -> str | None:
    """None: it cannot be found out here, so the library has to guess."""
    address = _own_address_towards(host)
    if address is None:
        return None
    if ipaddress.ip_address(address).is_loopback:
        return "lo0" if sys.platform == "darwin" else "lo"
    for _, name in socket.if_nameindex():
        if _address_of(name) == address:
            return name
    return None


def _own_address_towards(host: str) -> str | None:
    """The address that packets to `host` would come from; nothing is sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0]).partition("%")[0]
    return None


def _address_of(name: str) -> str | None:
    if sys.platform != "linux":
        return None
    import fcntl  # noqa: PLC0415  not on every platform

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    return None
