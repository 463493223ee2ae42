"""Providers that ask a service for nodes: a broker decides about calls in a thread of its own, and no method
of the provider waits for the service.

What the run calls is passed to the broker in the order of the calls. Between two rounds of the broker the run
sees the survey of the last one, without what it has released since.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, TypeVar

from elastune.errors import ExecutionError, InvariantError
from elastune.model.ids import NodeId
from elastune.providers.protocol import Price, ProviderSetting, Survey, check_request
from elastune.providers.ray_cluster import FinalCheck, RayLink, RayProviderBase

_log = logging.getLogger("elastune")

_FRESH_S = 0.5
"""A survey reuses a listing of Ray's nodes that is younger than this."""
_MOST_PAUSE_S = 5.0
_MOST_FAILED_STARTS = 4


class NodeBroker(Protocol):
    """Decides what to ask of a service next. No thread: `work` makes one round of calls."""

    @property
    def broken(self) -> str | None:
        """Why no node can ever come again."""

    @property
    def trouble(self) -> str | None:
        """The error of the last round, which is tried again."""

    def request(self, token: str, count: int) -> None: ...

    def release(self, nodes: Collection[NodeId]) -> None: ...

    def limit_nodes(self, most: int) -> None: ...

    def survey(self) -> Survey: ...

    def join(self, node: str, at_s: float) -> None:
        """Its Ray node is up since `at_s` of the run."""

    def notice(self, until: Mapping[str, float]) -> None:
        """These will be taken away at that time of the broker's clock."""

    def work(self) -> float:
        """Make all calls that are due; returns when the next is, by the broker's clock."""

    def look_afresh(self) -> None:
        """List now. Raises the error of the service."""


B = TypeVar("B", bound=NodeBroker)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootResult:
    """How far a node came that was started; `token`: of its request."""

    node: str
    token: str
    is_up: bool
    has_failed: bool


def failed_in_a_row(boots: Iterable[BootResult]) -> tuple[str, ...]:
    """Nodes that ended while they booted, one after the other and in several requests, so that more would
    only use up the budget; empty if there is hope. Those of one request may fail together, for example
    without a package index."""
    failed: dict[str, str] = {}
    for boot in boots:
        if boot.is_up:
            failed.clear()
        elif boot.has_failed:
            failed[boot.node] = boot.token
    is_hopeless = len(failed) >= _MOST_FAILED_STARTS and len(set(failed.values())) > 1
    return tuple(failed) if is_hopeless else ()


class BrokeredProvider(RayProviderBase, Generic[B]):
    """`ray_link` is for tests: with one, this process is not connected to a Ray cluster."""

    service: ClassVar[str]
    """Its name, for people."""
    service_error: ClassVar[type[Exception]]
    """What calls of the service raise."""
    refusal: ClassVar[type[Exception]]
    """Those that would be raised again."""
    first_look_tries: ClassVar[int] = 8

    def __init__(
        self, setting: ProviderSetting, slot_cpus: int, slot_gpus: int, *, ray_link: RayLink | None
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus)
        self._ray_link = ray_link
        self._broker: B | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ends = False
        self._asked: dict[str, int] = {}
        self._inbox: list[Callable[[B], None]] = []
        self._released: set[NodeId] = set()
        """Released, and not yet known to the broker."""
        self._until_s: float | None = None
        """The lease as it was when the inbox was last emptied, so that both are of the same instant."""
        self._survey = Survey(at_s=0.0)
        self._broken: str | None = None
        self._ray_nodes: Mapping[str, str] = {}
        self._looked_s: float | None = None
        self._final_check: FinalCheck | None = None

    # What each service does in its own way.

    @abstractmethod
    def connect(self) -> None:
        """Before the broker is made: to Ray, and to what else is needed."""

    @abstractmethod
    def disconnect(self) -> None:
        """May be repeated."""

    @abstractmethod
    def make_broker(self) -> B: ...

    def check_terms(self, broker: B) -> None:
        """After the first listing and before anything is paid for: would the service grant nodes?"""

    @abstractmethod
    def broker_clock(self) -> float:
        """The clock by which the broker says when it wants to work."""

    @abstractmethod
    def after_round(self, broker: B) -> str | None:
        """Look at what a round of the broker found; returns why no node can ever come again."""

    @abstractmethod
    def end_and_check(self, broker: B) -> FinalCheck:
        """End what is left, and list until it is gone."""

    @abstractmethod
    def end_unchecked(self, broker: B) -> FinalCheck:
        """After an interrupt: one call to end everything, without a listing. Does not raise."""

    # Open and close.

    def open(self) -> None:
        """Connect, and list what an earlier driver of this run has left."""
        if self._broker is not None or self._ends:
            raise InvariantError(f"the {self.service} provider is open already, or was; make a new one")
        try:
            self.connect()
            self._broker = self.make_broker()
            self._first_look(self._broker)
            self.check_terms(self._broker)
        except BaseException as error:
            self._broker = None  # it has started nothing
            self.disconnect()
            if isinstance(error, self.service_error):
                raise ExecutionError(f"{self.service} cannot be used: {error}") from None
            raise
        name = f"elastune-{self.service.lower()}"
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End every node of the run, and check that they are gone. May be repeated."""
        broker, thread = self._broker, self._thread
        self._ends = True
        self._wake.set()
        try:
            if thread is not None:
                thread.join()
            if broker is not None:
                self._final_check = self.end_and_check(broker)
        except BaseException:  # interrupted
            if broker is not None:
                self._final_check = self.end_unchecked(broker)
            raise
        finally:
            self._broker = self._thread = None
            self.disconnect()

    def final_check(self) -> FinalCheck | None:
        return self._final_check

    # The methods of a provider.

    def request(self, token: str, count: int) -> None:
        self._opened()
        check_request(token, count, self._asked.get(token))
        self._asked[token] = count
        self._post(lambda broker: broker.request(token, count))

    def survey(self) -> Survey:
        self._opened()
        self._look_at_ray()
        with self._lock:
            last = self._survey
            machines = tuple(each for each in last.machines if each.node not in self._released)
        return replace(last, at_s=max(last.at_s, self._setting.clock()), machines=machines)

    def release(self, nodes: Collection[NodeId]) -> None:
        self._opened()
        gone = frozenset(nodes)
        with self._lock:
            self._released |= gone
        self._post(lambda broker: broker.release(gone))

    def limit_nodes(self, most: int) -> None:
        super().limit_nodes(most)
        self._post(lambda broker: broker.limit_nodes(most))

    def price(self) -> Price:
        terms = self._setting.terms
        return Price.of(terms, terms.price_source)

    # The additional methods for Ray.

    @property
    def broken(self) -> str | None:
        return self._broken

    @property
    def is_elsewhere(self) -> bool:
        return True

    def ray_node(self, node: NodeId) -> str | None:
        return self._ray_nodes.get(node)

    # Private.

    def _opened(self) -> B:
        if self._broker is None:
            raise InvariantError(
                f"the {self.service} provider is not open: call open() before, nothing after close()"
            )
        return self._broker

    def _post(self, order: Callable[[B], None]) -> None:
        with self._lock:
            self._inbox.append(order)
        self._wake.set()

    def _look_at_ray(self) -> None:
        now_s = self._setting.clock()
        if self._ray_link is None or (self._looked_s is not None and 0 <= now_s - self._looked_s < _FRESH_S):
            return
        self._looked_s = now_s
        joined, leaving = self._ray_link.joined(), self._ray_link.leaving()
        new = tuple(name for name in joined if name not in self._ray_nodes)
        ahead = self.broker_clock() - time.time()
        noticed = {name: leaving[node] + ahead for name, node in joined.items() if node in leaving}
        self._ray_nodes = {**self._ray_nodes, **joined}
        if new:
            self._post(lambda broker: _join(broker, new, now_s))
        if noticed:
            self._post(lambda broker: broker.notice(noticed))

    def _first_look(self, broker: B) -> None:
        for tries in range(self.first_look_tries):
            try:
                broker.look_afresh()
            except self.service_error as error:
                if tries == self.first_look_tries - 1 or isinstance(error, self.refusal):
                    raise
                time.sleep(min(8.0, 0.5 * 2**tries))
            else:
                break
        self._survey = broker.survey()

    def _serve(self) -> None:
        """The thread: pass the run's calls to the broker, make the calls that are due, update the survey."""
        trouble: str | None = None
        while not self._ends:
            broker = self._broker
            if broker is None:
                return
            self._wake.clear()
            with self._lock:
                inbox, self._inbox = self._inbox, []
                released = frozenset(self._released)
                self._until_s = self._setting.lease()
            try:
                for order in inbox:
                    order(broker)
                due = broker.work()
                survey = broker.survey()
                broken = self.after_round(broker)
            except Exception as error:  # noqa: BLE001  our bug: better a suspended run than one that waits
                _log.exception("the %s provider broke", self.service)
                self._broken = f"the {self.service} provider broke: {error!r}"
                return
            if broker.trouble is not None and broker.trouble != trouble:
                _log.warning("%s: %s; trying again", self.service, broker.trouble)
            trouble = broker.trouble
            with self._lock:
                self._survey = survey
                self._released -= released
                self._broken = broker.broken or broken
            self._wake.wait(max(0.0, min(due - self.broker_clock(), _MOST_PAUSE_S)))


def _join(broker: NodeBroker, nodes: Collection[str], at_s: float) -> None:
    for node in nodes:
        broker.join(node, at_s)
