"""The ways to get a node that a job's options allow, in the order in which they are tried."""

from __future__ import annotations

from elastune.cluster import ClusterTerms
from elastune.providers.ec2.cloud import Ware
from elastune.providers.ec2.options import Ec2Options, markets_of
from elastune.providers.ec2.prices import price_of


def list_wares(options: Ec2Options, terms: ClusterTerms, *, priced_by_job: bool) -> tuple[Ware, ...]:
    """First every type in every zone on the first market, then on the next. A price that the job names is
    that of all of them."""
    wares = []
    for market in markets_of(options.market):
        for instance_type in options.instance_type:
            usd = terms.price_per_hour
            if not priced_by_job:
                usd = price_of(options, instance_type, market).usd_per_hour
            wares += [
                Ware(instance_type=instance_type, market=market, subnet=subnet, usd_per_hour=usd)
                for subnet in options.subnet or (None,)
            ]
    return tuple(wares)
