"""What all providers with a broker share, shown with a service that is a list in memory."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

import pytest

from elastune.errors import ExecutionError, InvariantError
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, ProviderSetting, RequestStatus, Survey
from elastune.providers.ray_cluster import FinalCheck, RayLink
from elastune.providers.remote.brokered import BootResult, BrokeredProvider, failed_in_a_row
from tests.waiting import wait_until


class ServiceError(Exception):
    pass


class RefusalError(ServiceError):
    pass


class ListBroker:
    """Grants at once what is asked for. `errors` are raised by the next listings."""

    def __init__(self, errors: list[ServiceError]) -> None:
        self.errors = errors
        self.calls: list[tuple[object, ...]] = []
        self.machines: dict[NodeId, Machine] = {}
        self.requests: dict[str, RequestStatus] = {}
        self.broken: str | None = None
        self.trouble: str | None = None
        self.bug: Exception | None = None

    def request(self, token: str, count: int) -> None:
        self.calls.append(("request", token, count))
        nodes = tuple(NodeId(f"{token}-{number}") for number in range(count))
        self.requests[token] = RequestStatus(token=token, asked=count, granted=nodes)
        self.machines |= {node: Machine(node=node, token=token, since_s=0.0) for node in nodes}

    def release(self, nodes: Collection[NodeId]) -> None:
        self.calls.append(("release", *sorted(nodes)))
        for node in nodes:
            self.machines.pop(node, None)

    def limit_nodes(self, most: int) -> None:
        self.calls.append(("limit", most))

    def join(self, node: str, at_s: float) -> None:
        self.calls.append(("join", node))

    def notice(self, until: Mapping[str, float]) -> None:
        self.calls += [("notice", node) for node in until]

    def survey(self) -> Survey:
        return Survey(
            at_s=0.0, machines=tuple(self.machines.values()), requests=tuple(self.requests.values())
        )

    def work(self) -> float:
        if self.bug is not None:
            raise self.bug
        return time.monotonic() + 60.0

    def look_afresh(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


class Joined(RayLink):
    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.until: dict[str, float] = {}

    def joined(self) -> Mapping[str, str]:
        return dict(self.nodes)

    def leaving(self) -> Mapping[str, float]:
        return dict(self.until)


class ListProvider(BrokeredProvider[ListBroker]):
    service = "List"
    service_error = ServiceError
    refusal = RefusalError
    first_look_tries = 3

    def __init__(self, *errors: ServiceError) -> None:
        terms = ClusterTerms(slots_per_node=1, max_nodes=8, price_per_hour=1.0)
        self.link = Joined()
        super().__init__(
            ProviderSetting(run="r", terms=terms, clock=time.monotonic), 1, 0, ray_link=self.link
        )
        self.broker = ListBroker(list(errors))
        self.connected = 0
        self.is_interrupted = False

    def connect(self) -> None:
        self.connected += 1

    def disconnect(self) -> None:
        self.connected = 0

    def make_broker(self) -> ListBroker:
        return self.broker

    def broker_clock(self) -> float:
        return time.monotonic()

    def after_round(self, broker: ListBroker) -> str | None:
        return "no more" if ("limit", 0) in broker.calls else None

    def end_and_check(self, broker: ListBroker) -> FinalCheck:
        if self.is_interrupted:
            raise KeyboardInterrupt
        return FinalCheck.now((), "listing")

    def end_unchecked(self, broker: ListBroker) -> FinalCheck:
        return FinalCheck.now(tuple(broker.machines), "not checked,")


@pytest.fixture
def provider() -> Iterator[ListProvider]:
    with ListProvider() as made:
        yield made


def test_calls_reach_the_broker_in_their_order(provider: ListProvider) -> None:
    provider.request("a", 2)
    provider.limit_nodes(3)
    provider.release([NodeId("a-1")])
    expected = [("request", "a", 2), ("limit", 3), ("release", "a-1")]
    wait_until(lambda: provider.broker.calls == expected)
    wait_until(lambda: [each.node for each in provider.survey().machines] == ["a-0"])


def test_what_was_released_is_listed_no_more_even_before_the_broker_knows(provider: ListProvider) -> None:
    provider.request("a", 2)
    wait_until(lambda: len(provider.survey().machines) == 2)
    provider.release([NodeId("a-0")])
    assert [each.node for each in provider.survey().machines] == ["a-1"]


def test_a_node_that_joins_ray_and_its_notice_are_passed_on_once(provider: ListProvider) -> None:
    provider.link.nodes = {"a-0": "ray-0"}
    wait_until(lambda: provider.survey() and ("join", "a-0") in provider.broker.calls)
    provider.link.until = {"ray-0": time.time() + 60.0}
    wait_until(lambda: provider.survey() and ("notice", "a-0") in provider.broker.calls)
    assert provider.broker.calls.count(("join", "a-0")) == 1
    assert provider.ray_node(NodeId("a-0")) == "ray-0"


def test_a_broker_with_a_bug_breaks_the_provider_and_says_so(provider: ListProvider) -> None:
    provider.broker.bug = ZeroDivisionError("a bug")
    provider.request("a", 1)
    wait_until(lambda: provider.broken is not None)
    assert provider.broken == "the List provider broke: ZeroDivisionError('a bug')"


def test_why_no_node_can_come_again_is_told(provider: ListProvider) -> None:
    provider.limit_nodes(0)
    wait_until(lambda: provider.broken == "no more")


def test_a_first_listing_that_fails_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with ListProvider(ServiceError("busy"), ServiceError("busy")) as provider:
        assert provider.broker.errors == []
        assert provider.connected == 1


@pytest.mark.parametrize("errors", [[RefusalError("no right")], [ServiceError("busy")] * 3])
def test_a_service_that_cannot_be_used_is_an_error_and_leaves_nothing_open(
    errors: list[ServiceError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    provider = ListProvider(*errors)
    with pytest.raises(ExecutionError, match=r"List cannot be used: (no right|busy)"):
        provider.open()
    assert provider.connected == 0
    with pytest.raises(InvariantError, match="the List provider is not open"):
        provider.survey()


def test_an_interrupt_at_the_end_still_ends_everything() -> None:
    provider = ListProvider()
    provider.open()
    provider.request("a", 1)
    wait_until(lambda: bool(provider.broker.machines))
    provider.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        provider.close()
    check = provider.final_check()
    assert check is not None
    assert check.left == ("a-0",)
    assert provider.connected == 0
    provider.close()
    with pytest.raises(InvariantError, match="or was; make a new one"):
        provider.open()


def boots(text: str) -> list[BootResult]:
    """`f` failed, `u` up, `b` still boots; a request for each word."""
    return [
        BootResult(node=f"{token}-{number}", token=str(token), is_up=kind == "u", has_failed=kind == "f")
        for token, word in enumerate(text.split())
        for number, kind in enumerate(word)
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("f f f", 0), ("ffff", 0), ("fff f", 4), ("ff bf f", 4), ("fff u f", 0), ("u ff fff", 5)],
)
def test_boots_are_hopeless_after_four_failures_in_a_row_of_several_requests(text: str, count: int) -> None:
    assert len(failed_in_a_row(boots(text))) == count
