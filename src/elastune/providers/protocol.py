"""The contract between a run and its provider of nodes: five methods and the values they exchange.

A provider decides nothing about tuning or money. A request is answered in a later survey, at once or in
parts. All times are seconds of the run's clock. The requirements are in `docs/providers.md`, and
`tests/providers/contract.py` checks them.

An `Inventory` is independent of runs: it lists every node of Elastune that is alive at a provider, and ends
nodes. `runs/orphans.py` decides which of them are orphans.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from elastune.errors import InvariantError, JobError
from elastune.model.billing import USUAL_BILLING, BillingRule, Options, Quotation
from elastune.model.cluster import Billing, ClusterTerms
from elastune.model.distributions import Distribution
from elastune.model.ids import NodeId
from elastune.wording import seen


class MachineState(enum.Enum):
    """A failed boot stays BOOTING, or is gone if the provider knows that it failed."""

    BOOTING = "booting"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node that costs money. Its times do not change once reported."""

    node: NodeId
    token: str
    """Of the request that it answers."""
    since_s: float
    """The start of INIT, and of billing."""
    ready_s: float | None = None
    until_s: float | None = None
    """When the provider will take it away, if it gave notice."""
    usd_per_hour: float | None = None
    """Its price where it differs from `price`: another instance type, or another market."""

    @property
    def state(self) -> MachineState:
        return MachineState.BOOTING if self.ready_s is None else MachineState.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatus:
    """The answer to a request so far. `granted` names every node it ever got, also those that are gone."""

    token: str
    asked: int
    granted: tuple[NodeId, ...] = ()
    refused: int = 0
    reason: str = ""
    """Why not all were granted, for people."""
    prices: Mapping[NodeId, float] = field(default_factory=dict)
    """Dollars per hour of the nodes whose price differs from `price`."""

    @property
    def open(self) -> int:
        """Nodes that may still come."""
        return max(0, self.asked - len(self.granted) - self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Every machine of this run that is not gone, oldest first, and the status of its answered requests.

    It is consistent: a listed machine is granted by the status of its token, and a granted node that is not
    listed is gone.
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
        """Ask for nodes. A repeated token asks for nothing new, also after a crash of the caller; with
        another count it is an `InvariantError`. A request cannot be withdrawn: late nodes are released."""

    def survey(self) -> Survey:
        """List what this run has, including what its earlier drivers requested."""

    def release(self, nodes: Collection[NodeId]) -> None:
        """Release exactly these, whatever they are doing: later surveys omit them and billing ends. Unknown
        and gone nodes are ignored, so a release can be repeated."""

    def limit_nodes(self, most: int) -> None:
        """At most so many nodes at once from now on, instead of the `max_nodes` of its terms."""

    def price(self) -> Price: ...


def check_request(token: str, count: int, asked: int | None) -> None:
    """`asked`: the count of an earlier request with the same token, if there was one."""
    if count < 1:
        raise InvariantError(f"request {token!r} asks for {count} nodes, expected at least 1")
    if asked is not None and asked != count:
        raise InvariantError(
            f"request {token!r} asked for {asked} nodes and now for {count}: "
            "a token stands for one request, take a new one"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveInstance:
    """A node that is alive. Times are seconds since 1970; None: not known."""

    provider: str
    node: str
    run: str | None
    job: str | None = None
    owner: str | None = None
    kind: str
    """The instance type and its market, for people."""
    state: str
    since: float
    usd_per_hour: float | None = None
    """None: not billed."""
    expires: float | None = None
    """The end of its lease, which a living driver extends."""
    is_kept: bool | None = None
    """Whether its driver lives, where the provider can see that without a lease; None: it cannot."""


class UnseenError(Exception):
    """The listing failed. `is_absent`: this provider is not set up on this machine."""

    def __init__(self, reason: str, *, is_absent: bool = False) -> None:
        super().__init__(reason)
        self.is_absent = is_absent


class Inventory(Protocol):
    """Both methods raise `UnseenError`."""

    def instances(self) -> tuple[LiveInstance, ...]:
        """All that is alive, of every run and owner that this account can see."""

    def end(self, nodes: Collection[str]) -> None:
        """Whatever they are doing. Nodes that are gone are ignored; others may take a while to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryScope:
    region: str | None = None
    """Of a cloud; None: the one configured on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSetting:
    """What a provider knows about its run."""

    run: str
    """Its id. Machines carry it as a tag, so the run finds them after a crash."""
    terms: ClusterTerms
    clock: Callable[[], float]
    seed: int = 0
    expires_s: float | None = None
    """Time-to-live of every node, counted from its start."""
    lease: Callable[[], float | None] = lambda: math.inf
    """Until when, by the run's clock, nodes may live without a driver; None: not known yet. Nodes that can
    outlive their driver carry this and end themselves then, unless a living driver extends it."""
    needed_until: Callable[[], float | None] = lambda: None
    """Until when, by the run's clock, nodes are needed at most; None: not known. For providers that are asked
    for a time: a shorter one is granted sooner."""
    down_s: float | None = None
    """How long ago the previous driver went down; None: this is the first."""
    job: str = ""
    """Its name, for people."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Of this provider alone (region, image, ...). It checks them and raises `JobError`."""


ProviderFactory = Callable[[ProviderSetting], Provider]
InventoryFactory = Callable[[InventoryScope], Inventory]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEntry:
    """All that the rest of Elastune knows about a provider. The functions take the job's `cluster.options`,
    check them and raise `JobError`."""

    make: ProviderFactory
    inventory: InventoryFactory | None = None
    """None: its nodes end with their driver, or are not ours to end."""
    quote_price: Callable[[Options], Quotation] | None = None
    """None: it knows no prices, and the job has to give the price of a node."""
    interruptions_per_hour: Callable[[Options], float] | None = None
    """How often a node is expected to be taken away; None: it takes none away."""
    expected_queue: Callable[[Options], Distribution | None] | None = None
    """How long a request is expected to wait, for a job that does not say so; None: not at all."""
    takes_slots: bool = False
    """Whether price and wait depend on what a node has: then `quote_price` and `expected_queue` also get
    slot_cpus, slot_gpus and slots_per_node among the options."""
    billing: BillingRule = USUAL_BILLING
    is_elsewhere: bool = True
    """Whether its nodes are other machines, or may be: they can outlive their driver, do not have the run's
    folder, and may cost money. Not of local and simulated nodes."""


def split_slot(setting: ProviderSetting) -> tuple[dict[str, object], int, int]:
    """The provider's own options, and the CPUs and GPUs of a slot, which a run adds to them."""
    options = dict(setting.options)
    cpus, gpus = options.pop("slot_cpus", 1), options.pop("slot_gpus", 0)
    return options, _whole("slot_cpus", cpus), _whole("slot_gpus", gpus)


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise JobError(f"{name} is {seen(value)}, expected a whole number from 0 on")
    return value
