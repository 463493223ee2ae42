"""Offerings in their order, and none above the highest price of the quote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elastune.errors import JobError
from elastune.model.cluster import JOBS_PRICE, ClusterTerms
from elastune.providers.ec2.calls import Ec2Options
from elastune.providers.ec2.offerings import list_offerings
from tests.providers.ec2.price_server import Prices, serving, without_aws


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Prices]:
    without_aws(monkeypatch)
    prices = Prices(
        on_demand={("p3.8xlarge", "us-east-1"): 12.24},
        spot={("p3.8xlarge", "us-east-1b"): 4.0},
        subnets={"subnet-a": "us-east-1a", "subnet-b": "us-east-1b"},
    )
    with serving(prices, monkeypatch):
        yield prices


OPTIONS = Ec2Options.parse(
    {
        "instance_type": "p3.8xlarge",
        "image": "ami-1",
        "region": "us-east-1",
        "market": "spot-with-fallback",
        "subnet": ["subnet-a", "subnet-b"],
    }
)


def terms(*, source: str = "EC2", **prices: float) -> ClusterTerms:
    return ClusterTerms(slots_per_node=4, max_nodes=4, price_source=source, **prices)  # type: ignore[arg-type]


@pytest.mark.usefixtures("aws")
def test_spot_in_every_zone_comes_before_on_demand() -> None:
    offerings = list_offerings(OPTIONS, terms(price_per_hour=4.0, most_price_per_hour=12.24))
    listed = [(offering.market.value, offering.subnet, offering.usd_per_hour) for offering in offerings]
    assert listed == [
        ("spot", "subnet-a", 4.0),
        ("spot", "subnet-b", 4.0),
        ("on-demand", "subnet-a", 12.24),
        ("on-demand", "subnet-b", 12.24),
    ]
    assert {offering.most_usd_per_hour for offering in offerings} == {12.24}


@pytest.mark.usefixtures("aws")
def test_what_has_become_dearer_than_the_quote_said_is_left_out() -> None:
    offerings = list_offerings(OPTIONS, terms(price_per_hour=4.0, most_price_per_hour=12.0))
    assert {offering.market.value for offering in offerings} == {"spot"}
    with pytest.raises(JobError, match=r"prices have risen since the quote.*p3.8xlarge spot is \$4 now"):
        list_offerings(OPTIONS, terms(price_per_hour=3.0))


def test_a_price_of_the_job_is_that_of_all() -> None:
    offerings = list_offerings(OPTIONS, terms(source=JOBS_PRICE, price_per_hour=2.5))
    assert {(offering.usd_per_hour, offering.most_usd_per_hour) for offering in offerings} == {(2.5, None)}
