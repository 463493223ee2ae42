"""What an EC2 node costs: as AWS says or, where it cannot be asked, by a dated list; always with its source.

Spot prices move. Where none is told, the price on demand stands in for it: nobody pays more than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elastune.errors import JobError
from elastune.providers.ec2.cloud import Market
from elastune.providers.ec2.options import Buying, Ec2Options, markets_of
from elastune.providers.ec2.price_lists import UntoldError, list_price, region_of, spot_price
from elastune.providers.ec2.price_table import AS_OF, REGION, USD_PER_HOUR
from elastune.providers.prices import Quotation
from elastune.wording import did_you_mean


def quote_price(options: Mapping[str, Any]) -> Quotation:
    """Of the first type on the first market of the options, and of the dearest that may come instead."""
    parsed = Ec2Options.parse(options)
    found = [
        price_of(parsed, instance_type, market)
        for market in markets_of(parsed.market)
        for instance_type in parsed.instance_type
    ]
    most = max(each.usd_per_hour for each in found)
    return replace(found[0], most_usd_per_hour=most if most > found[0].usd_per_hour else None)


def interruptions_per_hour(options: Mapping[str, Any]) -> float:
    """Nobody takes a node away that was bought on demand."""
    parsed = Ec2Options.parse(options)
    return 0.0 if parsed.market is Buying.ON_DEMAND else parsed.interruptions_per_hour


def price_of(options: Ec2Options, instance_type: str, market: Market) -> Quotation:
    """Of one type on one market. Raises `JobError` where nobody knows a price."""
    region = region_of(options.region)
    if market is Market.ON_DEMAND:
        return _on_demand(instance_type, region)
    try:
        told = spot_price(instance_type, region, options.subnet)
    except UntoldError as untold:
        bound = _on_demand(instance_type, region)
        return replace(
            bound, source=f"the most that spot costs: {bound.source}", remark=_remark(bound.remark, untold)
        )
    return Quotation(usd_per_hour=told.usd_per_hour, source=f"EC2 spot, {told.zone}, price", as_of=told.as_of)


def _on_demand(instance_type: str, region: str | None) -> Quotation:
    try:
        told = list_price(instance_type, region)
    except UntoldError as untold:
        return _by_table(instance_type, region, untold)
    source = f"EC2 on demand, {region}, price list"
    return Quotation(usd_per_hour=told.usd_per_hour, source=source, as_of=told.as_of)


def _by_table(instance_type: str, region: str | None, untold: UntoldError) -> Quotation:
    if instance_type not in USD_PER_HOUR:
        raise JobError(
            f"cluster.price_per_hour is missing, and the price of {instance_type} is not known: AWS told "
            f"none ({untold}), and it is not in the built-in list; expected the price, or a common type"
            f"{did_you_mean(instance_type, USD_PER_HOUR)}"
        ) from None
    elsewhere = f" (in {region} it may differ)" if region not in {None, REGION} else ""
    return Quotation(
        usd_per_hour=USD_PER_HOUR[instance_type],
        source=f"EC2 on demand, {REGION}{elsewhere}, built-in list",
        as_of=AS_OF,
        remark=f"AWS told none: {untold}",
    )


def _remark(said: str, untold: UntoldError) -> str:
    """What is true of spot is mostly true of the price list, too; then it is told once."""
    return said or f"AWS told none: {untold}"
