"""What driver and keeper say to each other: one JSON object per line, named by its kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from elastune.errors import InvariantError


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All that a keeper is told when it starts."""

    folder: str
    driver: int
    """The process that the fleet must not outlive."""
    cpus: float
    gpus: float
    """What every node offers to Ray."""
    expires_s: float | None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """To the keeper: start these nodes. Answered by one `Started`, so that no request is ever half known."""

    token: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """To the keeper: end exactly these."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The head is up."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The head did not come up, or broke. It is the last that a keeper says."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The nodes of this request are being started, from now on."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """These nodes boot; the others of the request will not come, for this reason."""

    token: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """Ray answers on this node, which it calls `ray_node`."""

    node: str
    ray_node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    node: str


Order = Start | End
News = Opened | Failed | Begun | Started | Up | Gone

_KINDS: dict[str, Callable[..., Order | News]] = {
    kind.__name__: kind for kind in (Start, End, Opened, Failed, Begun, Started, Up, Gone)
}


def encode(message: Order | News) -> bytes:
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decode(line: bytes | str) -> Order | News:
    fields = json.loads(line)
    kind = _KINDS.get(fields.pop("kind", ""))
    if kind is None:
        raise InvariantError(f"driver and keeper do not understand each other: {line!r}")
    return kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )
