"""What an EC2 node costs: as AWS says, or by the built-in list, and always with the source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elastune.errors import JobError
from elastune.model.billing import Quotation
from elastune.providers.ec2.prices import USD_PER_HOUR, interruptions_per_hour, quote_price
from elastune.providers.registry import billing_rule, interruption_lookup, price_lookup
from tests.providers.ec2.price_server import Prices, serving, without_aws

OPTIONS = {"instance_type": "p3.8xlarge", "image": "ami-1", "region": "us-east-1"}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Prices]:
    without_aws(monkeypatch)
    with serving(Prices(), monkeypatch) as prices:
        yield prices


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_aws(monkeypatch)


def quoted(**options: object) -> Quotation:
    return quote_price({**OPTIONS, **options})


def test_on_demand_it_is_the_price_list(aws: Prices) -> None:
    aws.on_demand = {("p3.8xlarge", "us-east-1"): 12.5}
    quotation = quoted()
    assert (quotation.usd_per_hour, quotation.most_usd_per_hour) == (12.5, None)
    assert str(quotation) == "EC2 on demand, us-east-1, price list of 13 Nov 2026"
    wanted = {each["Field"]: each["Value"] for each in aws.asked[0]["Filters"]}
    assert wanted == {
        "instanceType": "p3.8xlarge", "regionCode": "us-east-1", "operatingSystem": "Linux",
        "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used",
    }  # fmt: skip


def test_spot_is_the_dearest_zone_of_now(aws: Prices) -> None:
    aws.spot = {("p3.8xlarge", "us-east-1a"): 3.9, ("p3.8xlarge", "us-east-1b"): 4.4}
    quotation = quoted(market="spot")
    assert str(quotation) == "EC2 spot, us-east-1b, price of 16 Nov 2026"
    assert (quotation.usd_per_hour, quotation.most_usd_per_hour) == (4.4, None)


def test_only_the_zones_of_the_subnets_count(aws: Prices) -> None:
    aws.spot = {("p3.8xlarge", "us-east-1a"): 3.9, ("p3.8xlarge", "us-east-1b"): 4.4}
    aws.subnets = {"subnet-1": "us-east-1a"}
    assert quoted(market="spot", subnet="subnet-1").usd_per_hour == 3.9


def test_the_dearest_that_may_come_instead_is_told(aws: Prices) -> None:
    aws.on_demand = {("p3.8xlarge", "us-east-1"): 12.24, ("p3.16xlarge", "us-east-1"): 24.48}
    aws.spot = {("p3.8xlarge", "us-east-1a"): 3.9, ("p3.16xlarge", "us-east-1a"): 9.0}
    types = ["p3.8xlarge", "p3.16xlarge"]
    assert quoted(market="spot", instance_type=types).most_usd_per_hour == 9.0
    fallback = quoted(market="spot-with-fallback", instance_type=types)
    assert (fallback.usd_per_hour, fallback.most_usd_per_hour) == (3.9, 24.48)


def test_without_a_spot_price_it_is_at_most_the_one_on_demand(aws: Prices) -> None:
    aws.on_demand = {("p3.8xlarge", "us-east-1"): 12.5}
    quotation = quoted(market="spot")
    assert quotation.usd_per_hour == 12.5
    assert str(quotation) == (
        "the most that spot costs: EC2 on demand, us-east-1, price list of 13 Nov 2026; AWS gave none: "
        "no spot price of p3.8xlarge in us-east-1"
    )


def test_without_aws_it_is_the_built_in_list(alone: None) -> None:
    quotation = quoted()
    assert quotation.usd_per_hour == 12.24
    assert str(quotation) == (
        "EC2 on demand, us-east-1, built-in list of 26 Aug 2026; AWS gave none: there are no AWS credentials"
    )


def test_the_list_of_another_region_is_told_as_such(alone: None) -> None:
    assert "us-east-1 (in eu-west-1 it may differ), built-in list" in str(quoted(region="eu-west-1"))
    assert "AWS gave none: no region is configured" in str(quoted(region=None))


def test_who_may_not_ask_gets_the_list_and_no_words_of_others(aws: Prices) -> None:
    aws.denied = True
    text = str(quoted())
    assert text.endswith("AWS gave none: it answered AccessDeniedException")
    assert "secret" not in text


def test_no_answer_is_no_error(monkeypatch: pytest.MonkeyPatch, aws: Prices) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert str(quoted()).endswith("AWS gave none: it cannot be reached")


def test_an_unknown_type_needs_a_price(alone: None) -> None:
    with pytest.raises(JobError, match=r"price of p3\.8xlrge is not known.*did you mean 'p3\.8xlarge'"):
        quoted(instance_type="p3.8xlrge")


def test_options_are_checked(alone: None) -> None:
    with pytest.raises(JobError, match=r"cluster\.options\.colour is no option of ec2"):
        quoted(colour="red")


def test_only_spot_is_interrupted(alone: None) -> None:
    assert interruptions_per_hour(OPTIONS) == 0.0
    assert interruptions_per_hour({**OPTIONS, "market": "spot"}) == 0.05
    assert interruptions_per_hour({**OPTIONS, "market": "spot", "interruptions_per_hour": 0.2}) == 0.2


def test_providers_without_prices_have_no_tellers() -> None:
    assert price_lookup("local") is None
    assert interruption_lookup("simulated") is None
    assert billing_rule("local").minimum_charge_s == billing_rule("ec2").minimum_charge_s == 60.0


def test_the_built_in_list_has_sizes_in_proportion() -> None:
    for family in ("c5", "c6i", "m5", "m6i", "r5"):
        assert USD_PER_HOUR[f"{family}.24xlarge"] == pytest.approx(48 * USD_PER_HOUR[f"{family}.large"])
    assert USD_PER_HOUR["p3.8xlarge"] == pytest.approx(4 * USD_PER_HOUR["p3.2xlarge"])
