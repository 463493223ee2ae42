"""The ways to get a node that a job's options allow, in the order in which they are tried."""

from __future__ import annotations

from elastune.cluster import SECONDS_PER_HOUR, ClusterTerms
from elastune.errors import JobError
from elastune.providers.ec2.cloud import Ware
from elastune.providers.ec2.options import Ec2Options, markets_of
from elastune.providers.ec2.prices import price_of

_ROUNDING = 1 + 1e-9


def list_wares(options: Ec2Options, terms: ClusterTerms) -> tuple[Ware, ...]:
    """First every type in every zone on the first market, then on the next. A price that the job names is
    that of all of them. What has become dearer than was reckoned with is left out: the quote did not know."""
    wares: list[Ware] = []
    dearer: list[str] = []
    most = terms.dearest_usd_per_s * SECONDS_PER_HOUR
    for market in markets_of(options.market):
        for instance_type in options.instance_type:
            usd = terms.price_per_hour
            if not terms.is_priced_by_job:
                usd = price_of(options, instance_type, market).usd_per_hour
            if usd > most * _ROUNDING:
                dearer.append(f"{instance_type} {market} is ${usd:g} now")
                continue
            wares += [
                Ware(
                    instance_type=instance_type,
                    market=market,
                    subnet=subnet,
                    usd_per_hour=usd,
                    most_usd_per_hour=None if terms.is_priced_by_job else most,
                )
                for subnet in options.subnet or (None,)
            ]
    if not wares:
        raise JobError(
            f"prices have risen since the quote, which reckoned with ${most:g} per hour at most: "
            f"{', '.join(dearer)}; ask for another quote, or set cluster.price_per_hour"
        )
    return tuple(wares)
