"""What AWS says a node costs: its price list, and the history of the spot market.

Whoever cannot ask (no boto3, no credentials, no network, no right) gets `UntoldError` with the reason, soon.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

# The price list of all regions is served there.
_HOME = "us-east-1"
_CONNECT_S, _READ_S = 3, 10
_NOWHERE = "no region is configured"
_LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class UntoldError(Exception):
    """AWS told no price; the message says why, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    usd_per_hour: float
    as_of: str
    zone: str = ""


def region_of(given: str | None) -> str | None:
    """The region that the AWS configuration of this machine names, unless one is given."""
    if given is not None:
        return given
    try:
        with _told():
            import boto3  # noqa: PLC0415

            return boto3.Session().region_name  # type: ignore[no-any-return]
    except UntoldError:
        return None


def list_price(instance_type: str, region: str | None) -> Told:
    """On demand: Linux, shared tenancy, nothing installed beside it."""
    if region is None:
        raise UntoldError(_NOWHERE)
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
    with _told():
        answer = _client("pricing", _HOME).get_products(ServiceCode="AmazonEC2", Filters=filters)
        told = [price for each in answer["PriceList"] if (price := _read_product(json.loads(each)))]
    if not told:
        raise UntoldError(f"its price list has no {instance_type} in {region}")
    return max(told, key=lambda each: each.usd_per_hour)


def spot_price(instance_type: str, region: str | None, subnets: Collection[str] = ()) -> Told:
    """Of now, in the dearest of the zones of these subnets, or of all."""
    if region is None:
        raise UntoldError(_NOWHERE)
    now = datetime.now(UTC)
    with _told():
        client = _client("ec2", region)
        zones = _zones(client, subnets)
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=[instance_type], ProductDescriptions=[*_LINUX], StartTime=now, EndTime=now
        )
        newest: dict[str, Any] = {}
        for each in (each for page in pages for each in page["SpotPriceHistory"]):
            zone = each["AvailabilityZone"]
            if zone not in newest or newest[zone]["Timestamp"] < each["Timestamp"]:
                newest[zone] = each
        told = [
            Told(usd_per_hour=float(each["SpotPrice"]), as_of=_day(each["Timestamp"]), zone=zone)
            for zone, each in newest.items()
            if not zones or zone in zones
        ]
    if not told:
        raise UntoldError(f"no spot price of {instance_type} in {', '.join(sorted(zones)) or region}")
    return max(told, key=lambda each: each.usd_per_hour)


def _zones(client: Any, subnets: Collection[str]) -> set[str]:
    if not subnets:
        return set()
    answer = client.describe_subnets(SubnetIds=sorted(subnets))
    return {each["AvailabilityZone"] for each in answer["Subnets"]}


def _read_product(product: Any) -> Told | None:
    """The document has prices by offer term and by dimension, each under a name of its own."""
    day = product.get("publicationDate", "")[:10]
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0.0))
            if usd > 0.0 and dimension.get("unit", "Hrs") == "Hrs":
                as_of = datetime.fromisoformat(day or term["effectiveDate"][:10]).replace(tzinfo=UTC)
                return Told(usd_per_hour=usd, as_of=_day(as_of))
    return None


def _day(when: datetime) -> str:
    return f"{when.day} {when:%b %Y}"


def _client(service: str, region: str) -> Any:
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"total_max_attempts": 2, "mode": "standard"},
    )
    return boto3.Session().client(service, region_name=region, config=config)


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong on the way to AWS, in a few words. Messages of others may quote what is secret."""
    try:
        from botocore import exceptions as boto  # noqa: PLC0415
    except ImportError:
        raise UntoldError("boto3 is not installed") from None
    try:
        yield
    except ImportError:
        raise UntoldError("boto3 is not installed") from None
    except (boto.NoCredentialsError, boto.PartialCredentialsError):
        raise UntoldError("there are no AWS credentials") from None
    except boto.ClientError as error:
        raise UntoldError(f"it answered {error.response.get('Error', {}).get('Code', 'an error')}") from None
    except (boto.HTTPClientError, boto.ConnectionError):
        raise UntoldError("it cannot be reached") from None
    except boto.BotoCoreError as error:
        raise UntoldError(f"boto3 raised {type(error).__name__}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UntoldError("its answer cannot be read") from None
