"""The price of an EC2 node with its source: AWS (price list, spot history), or a built-in dated list.

Where AWS cannot be asked (no boto3, no credentials, no network, no right), the price list of common types
below is used. Spot prices move; without one, the price on demand is used, which is the most that spot costs.

P3, P4d, P5, G5, G6 and Trn1 are from instances.vantage.sh of `AS_OF` (P4d and P5 are cheaper since June
2025). G4dn and the CPU families are older, and agree with other lists of 2025 and 2026. Within a CPU family
every size costs the same per vCPU. Other regions cost the same (us-east-2, us-west-2) or up to 1.7 times as
much (sa-east-1).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from elastune.errors import JobError
from elastune.model.billing import Quotation
from elastune.providers.ec2.calls import Buying, Ec2Options, Market, markets_of
from elastune.wording import did_you_mean

# The price list of all regions is served there.
_HOME = "us-east-1"
_CONNECT_S, _READ_S = 3, 10
_NO_REGION = "no region is configured"
_LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class NoPriceError(Exception):
    """AWS gave no price; the message is the reason, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPrice:
    usd_per_hour: float
    as_of: str
    zone: str = ""


def region_of(given: str | None) -> str | None:
    """The given region, or the one in the AWS configuration of this machine."""
    if given is not None:
        return given
    try:
        with _aws_errors():
            import boto3  # noqa: PLC0415

            return boto3.Session().region_name  # type: ignore[no-any-return]
    except NoPriceError:
        return None


def list_price(instance_type: str, region: str | None) -> AwsPrice:
    """On demand: Linux, shared tenancy, no preinstalled software."""
    if region is None:
        raise NoPriceError(_NO_REGION)
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
    with _aws_errors():
        answer = _client("pricing", _HOME).get_products(ServiceCode="AmazonEC2", Filters=filters)
        prices = [price for each in answer["PriceList"] if (price := _read_product(json.loads(each)))]
    if not prices:
        raise NoPriceError(f"its price list has no {instance_type} in {region}")
    return max(prices, key=lambda each: each.usd_per_hour)


def spot_price(instance_type: str, region: str | None, subnets: Collection[str] = ()) -> AwsPrice:
    """The present price in the dearest of the zones of these subnets, or of all zones."""
    if region is None:
        raise NoPriceError(_NO_REGION)
    now = datetime.now(UTC)
    with _aws_errors():
        client = _client("ec2", region)
        in_subnets = client.describe_subnets(SubnetIds=sorted(subnets))["Subnets"] if subnets else ()
        zones = {each["AvailabilityZone"] for each in in_subnets}
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=[instance_type], ProductDescriptions=[*_LINUX], StartTime=now, EndTime=now
        )
        newest: dict[str, Any] = {}
        for each in (each for page in pages for each in page["SpotPriceHistory"]):
            zone = each["AvailabilityZone"]
            if zone not in newest or newest[zone]["Timestamp"] < each["Timestamp"]:
                newest[zone] = each
        prices = [
            AwsPrice(usd_per_hour=float(each["SpotPrice"]), as_of=_day(each["Timestamp"]), zone=zone)
            for zone, each in newest.items()
            if not zones or zone in zones
        ]
    if not prices:
        raise NoPriceError(f"no spot price of {instance_type} in {', '.join(sorted(zones)) or region}")
    return max(prices, key=lambda each: each.usd_per_hour)


def _read_product(product: Any) -> AwsPrice | None:
    """The document has prices by offer term and by dimension, each under its own name."""
    day = product.get("publicationDate", "")[:10]
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0.0))
            if usd > 0.0 and dimension.get("unit", "Hrs") == "Hrs":
                as_of = datetime.fromisoformat(day or term["effectiveDate"][:10]).replace(tzinfo=UTC)
                return AwsPrice(usd_per_hour=usd, as_of=_day(as_of))
    return None


def _day(when: datetime) -> str:
    return f"{when.day} {when:%b %Y}"


def _client(service: str, region: str) -> Any:
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    retries = {"total_max_attempts": 2, "mode": "standard"}
    config = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries=retries)
    return boto3.Session().client(service, region_name=region, config=config)


@contextmanager
def _aws_errors() -> Iterator[None]:
    """Turn all errors into `NoPriceError`, without their messages, which may quote secrets."""
    try:
        from botocore import exceptions as boto  # noqa: PLC0415
    except ImportError:
        raise NoPriceError("boto3 is not installed") from None
    try:
        yield
    except ImportError:
        raise NoPriceError("boto3 is not installed") from None
    except (boto.NoCredentialsError, boto.PartialCredentialsError):
        raise NoPriceError("there are no AWS credentials") from None
    except boto.ClientError as error:
        raise NoPriceError(f"it answered {error.response.get('Error', {}).get('Code', 'an error')}") from None
    except (boto.HTTPClientError, boto.ConnectionError):
        raise NoPriceError("it cannot be reached") from None
    except boto.BotoCoreError as error:
        raise NoPriceError(f"boto3 raised {type(error).__name__}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoPriceError("its answer cannot be read") from None


REGION = "us-east-1"
AS_OF = "26 Aug 2026"

_VCPUS = {
    "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "9xlarge": 36, "12xlarge": 48,
    "16xlarge": 64, "18xlarge": 72, "24xlarge": 96, "32xlarge": 128,
}  # fmt: skip
_M5 = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge", "24xlarge")
_C5 = ("large", "xlarge", "2xlarge", "4xlarge", "9xlarge", "12xlarge", "18xlarge", "24xlarge")
_PER_VCPU = {
    "c5": (0.0425, _C5),
    "c6i": (0.0425, (*_M5, "32xlarge")),
    "m5": (0.048, _M5),
    "m6i": (0.048, (*_M5, "32xlarge")),
    "r5": (0.063, _M5),
}
_ACCELERATED = {
    "g4dn.xlarge": 0.526, "g4dn.2xlarge": 0.752, "g4dn.4xlarge": 1.204, "g4dn.8xlarge": 2.176,
    "g4dn.12xlarge": 3.912, "g4dn.16xlarge": 4.352, "g4dn.metal": 7.824,
    "g5.xlarge": 1.006, "g5.2xlarge": 1.212, "g5.4xlarge": 1.624, "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672, "g5.16xlarge": 4.096, "g5.24xlarge": 8.144, "g5.48xlarge": 16.288,
    "g6.xlarge": 0.8048, "g6.2xlarge": 0.9776, "g6.4xlarge": 1.3232, "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016, "g6.16xlarge": 3.3968, "g6.24xlarge": 6.6752, "g6.48xlarge": 13.3504,
    "p3.2xlarge": 3.06, "p3.8xlarge": 12.24, "p3.16xlarge": 24.48,
    "p4d.24xlarge": 21.957642,
    "p5.4xlarge": 6.88, "p5.48xlarge": 55.04,
    "trn1.2xlarge": 1.34375, "trn1.32xlarge": 21.5,
}  # fmt: skip

USD_PER_HOUR = _ACCELERATED | {
    f"{family}.{size}": round(usd * _VCPUS[size], 6)
    for family, (usd, sizes) in _PER_VCPU.items()
    for size in sizes
}
"""On demand, Linux, shared tenancy, in `REGION`."""


def quote_price(options: Mapping[str, Any]) -> Quotation:
    """The price of the first type on the first market, and of the dearest that may come instead."""
    parsed = Ec2Options.parse(options)
    found = [
        price_of(parsed, instance_type, market)
        for market in markets_of(parsed.market)
        for instance_type in parsed.instance_type
    ]
    most = max(each.usd_per_hour for each in found)
    return replace(found[0], most_usd_per_hour=most if most > found[0].usd_per_hour else None)


def interruptions_per_hour(options: Mapping[str, Any]) -> float:
    """0 on demand: those nodes are not taken away."""
    parsed = Ec2Options.parse(options)
    return 0.0 if parsed.market is Buying.ON_DEMAND else parsed.interruptions_per_hour


def price_of(options: Ec2Options, instance_type: str, market: Market) -> Quotation:
    """Of one type on one market. Raises `JobError` where no price is known."""
    region = region_of(options.region)
    if market is Market.ON_DEMAND:
        return _on_demand(instance_type, region)
    try:
        spot = spot_price(instance_type, region, options.subnet)
    except NoPriceError as reason:
        most = _on_demand(instance_type, region)
        # The reason for spot is mostly that for the price list, too, and then given only once.
        remark = most.remark or f"AWS gave none: {reason}"
        return replace(most, source=f"the most that spot costs: {most.source}", remark=remark)
    return Quotation(usd_per_hour=spot.usd_per_hour, source=f"EC2 spot, {spot.zone}, price", as_of=spot.as_of)


def _on_demand(instance_type: str, region: str | None) -> Quotation:
    try:
        price = list_price(instance_type, region)
    except NoPriceError as reason:
        return _by_table(instance_type, region, reason)
    source = f"EC2 on demand, {region}, price list"
    return Quotation(usd_per_hour=price.usd_per_hour, source=source, as_of=price.as_of)


def _by_table(instance_type: str, region: str | None, reason: NoPriceError) -> Quotation:
    if instance_type not in USD_PER_HOUR:
        raise JobError(
            f"cluster.price_per_hour is missing, and the price of {instance_type} is not known: AWS gave "
            f"none ({reason}), and it is not in the built-in list; expected the price, or a common type"
            f"{did_you_mean(instance_type, USD_PER_HOUR)}"
        ) from None
    elsewhere = f" (in {region} it may differ)" if region not in {None, REGION} else ""
    return Quotation(
        usd_per_hour=USD_PER_HOUR[instance_type],
        source=f"EC2 on demand, {REGION}{elsewhere}, built-in list",
        as_of=AS_OF,
        remark=f"AWS gave none: {reason}",
    )
