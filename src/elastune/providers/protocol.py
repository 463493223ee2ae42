"""The seam between a run and whoever rents machines to it: four verbs and the values they exchange.

A provider decides nothing about tuning or money. It is asked for nodes, tells what there is, and lets exact
nodes go. Answers may take their time: a request is answered in a later survey, in one piece or in several.
All times are seconds of the run's clock. What every implementation owes is in `docs/providers.md`, and
`tests/providers/contract.py` checks it.

What is alive at a provider, across all runs, and how to end it: for people who fear a bill.

A run knows its own nodes by the four verbs. An estate knows no run: it lists whatever of Elastune there is,
also what a driver left behind that is long gone. Who is an orphan is decided elsewhere.

A package offers one as an entry point of the group `elastune.estates`: a function from `Outlook` to `Estate`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.ids import NodeId


class MachineState(enum.Enum):
    """Of a machine that is listed. A boot that failed is BOOTING for good, or gone if that is sure."""

    BOOTING = "booting"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node that costs money. Its times, once told, do not change."""

    node: NodeId
    token: str
    """Of the request that it answers."""
    since_s: float
    """The start of INIT, and of billing."""
    ready_s: float | None = None
    until_s: float | None = None
    """The instant at which the provider will take it away, if it gave notice of that."""
    usd_per_hour: float | None = None
    """What it costs, if not what `price` says: it is of another kind, or from another market."""

    @property
    def state(self) -> MachineState:
        return MachineState.BOOTING if self.ready_s is None else MachineState.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatus:
    """What became of a request, as far as it is answered.

    `granted` names every node that it ever got, so that one which came and went between two surveys is not
    awaited for ever.
    """

    token: str
    asked: int
    granted: tuple[NodeId, ...] = ()
    refused: int = 0
    reason: str = ""
    """Why not all were granted, for people."""
    prices: Mapping[NodeId, float] = field(default_factory=dict)
    """Dollars per hour of those nodes that do not cost what `price` says."""

    @property
    def open(self) -> int:
        """Nodes that may still come."""
        return max(0, self.asked - len(self.granted) - self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Every machine of this run that is not gone, oldest first, and the fates of its answered requests.

    It agrees with itself: a machine that is listed is granted by the fate of its token, and a granted node
    that is not listed is gone.
    """

    at_s: float
    machines: tuple[Machine, ...] = ()
    requests: tuple[RequestStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a node costs."""

    usd_per_hour: float
    billing: Billing
    minimum_charge_s: float
    data_usd_per_node: float
    """Ingress, once per granted node."""
    source: str
    """Where the figures come from, for people: "job file", "EC2 on demand, us-east-1, 2 May 2025"."""

    @classmethod
    def of(cls, terms: ClusterTerms, source: str = "job file") -> Price:
        """As the job's cluster has it."""
        return cls(
            usd_per_hour=terms.price_per_hour,
            billing=terms.billing,
            minimum_charge_s=terms.minimum_charge_s,
            data_usd_per_node=terms.data_usd_per_node,
            source=source,
        )


class Provider(Protocol):
    """Rents nodes of one kind to one run."""

    def request(self, token: str, count: int) -> None:
        """Ask for nodes. The same token again asks for nothing new, also after a crash of the caller.

        A token that comes back with another count is an `InvariantError`. There is no way to take a request
        back: nodes that come too late are released.
        """
        ...

    def survey(self) -> Survey:
        """List what this run has, whoever of its drivers asked for it."""
        ...

    def release(self, nodes: Collection[NodeId]) -> None:
        """Let exactly these go, whatever they are doing; later surveys do not list them and billing ends.

        Nodes that are unknown or gone are ignored, so that repeating a release is harmless.
        """
        ...

    def price(self) -> Price: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveInstance:
    """A node that is alive. Times are seconds since 1970; None: nobody has said."""

    provider: str
    node: str
    run: str | None
    job: str | None = None
    owner: str | None = None
    kind: str
    """Of machine, and on which market it was bought."""
    state: str
    since: float
    usd_per_hour: float | None = None
    """None: nobody sends a bill."""
    expires: float | None = None
    """The end of its lease, which a living driver puts off."""
    is_kept: bool | None = None
    """Whether its driver lives, where the provider can see that without a lease; None: it cannot."""


class UnseenError(Exception):
    """It was not possible to look. `is_absent`: this provider is simply not set up here."""

    def __init__(self, reason: str, *, is_absent: bool = False) -> None:
        super().__init__(reason)
        self.is_absent = is_absent


class Inventory(Protocol):
    """Both raise `UnseenError`."""

    def instances(self) -> tuple[LiveInstance, ...]:
        """All that is alive, of every run and owner that this account can see."""
        ...

    def end(self, nodes: Collection[str]) -> None:
        """Whatever they are doing; those that are gone are no error. Some may take a while to be gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryScope:
    """Where to look."""

    region: str | None = None
    """Of a cloud; None: as this machine is set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSetting:
    """All that a provider is told about the run it works for."""

    run: str
    """Its id. Machines carry it as a tag, so that the run finds them again after a crash."""
    terms: ClusterTerms
    clock: Callable[[], float]
    seed: int = 0
    expires_s: float | None = None
    """Time-to-live of every node, counted from its start."""
    lease: Callable[[], float | None] = lambda: math.inf
    """Until when, by the run's clock, nodes may live if nobody watches them; None: not known yet. Where nodes
    outlive their driver, each carries this and ends itself then, unless a living driver has put it off."""
    down_s: float | None = None
    """How long ago the driver before this one went down; None: this is the first."""
    job: str = ""
    """Its name, for people."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Of this provider alone (region, image, ...). It checks them, and raises JobError."""


ProviderFactory = Callable[[ProviderSetting], Provider]
