"""The offerings (ways to get a node) that a job allows, in order, and one request's way through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from elastune.errors import JobError
from elastune.model.cluster import SECONDS_PER_HOUR, ClusterTerms
from elastune.providers.ec2.calls import Ec2Options, Launch, Offering, markets_of
from elastune.providers.ec2.prices import price_of
from elastune.providers.protocol import check_request

_ROUNDING = 1 + 1e-9


def list_offerings(options: Ec2Options, terms: ClusterTerms) -> tuple[Offering, ...]:
    """First every type in every zone on the first market, then on the next. A price that the job names is
    that of all of them. Offerings above the highest price of the quote are left out."""
    offerings: list[Offering] = []
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
            offerings += [
                Offering(
                    instance_type=instance_type,
                    market=market,
                    subnet=subnet,
                    usd_per_hour=usd,
                    most_usd_per_hour=None if terms.is_priced_by_job else most,
                )
                for subnet in options.subnet or (None,)
            ]
    if not offerings:
        raise JobError(
            f"prices have risen since the quote, which expected ${most:g} per hour at most: "
            f"{', '.join(dearer)}; ask for another quote, or set cluster.price_per_hour"
        )
    return tuple(offerings)


# Between tries of the same call, first and at most; a random part of up to half is added.
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 30.0


@dataclass(slots=True)
class LaunchOrder:
    """Each offering is tried once, in order of preference; nodes that none of them delivers are refused."""

    token: str
    asked: int
    position: int = 0
    """In the list of offerings."""
    granted: list[str] = field(default_factory=list)
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    due: float = 0.0
    """The time of the next try."""
    tries: int = 0
    """Of the present call."""
    under_way: Launch | None = None
    """A call without an answer. Only repeating it shows whether it was executed."""
    awaited_until: float | None = None
    """It was launched before: until then we wait for the listing to show its instances."""

    def __post_init__(self) -> None:
        check_request(self.token, self.asked, None)

    @property
    def left(self) -> int:
        return max(0, self.asked - len(self.granted) - self.refused)

    def offering(self, offerings: Sequence[Offering]) -> Offering | None:
        """The next to try; None: all were tried."""
        return offerings[self.position] if self.position < len(offerings) else None

    def grant(self, instance: str) -> None:
        if instance not in self.granted:
            self.granted.append(instance)

    def advance(self, why: str = "") -> None:
        """The rest has to come from the next offering."""
        if why:
            self.reasons.append(why)
        self.position += 1
        self.tries, self.due = 0, 0.0
        self.under_way = self.awaited_until = None

    def refuse(self, count: int, why: str) -> None:
        self.refused += min(count, self.left)
        self.reasons.append(why)

    def wait(self, now: float, chance: float) -> None:
        """Try the same again later; `chance`, from 0 to 1, keeps drivers from trying at the same time."""
        pause = min(MOST_WAIT_S, FIRST_WAIT_S * 2 ** min(self.tries, 10))
        self.tries += 1
        self.due = now + pause * (1.0 + chance / 2)

    @property
    def reason(self) -> str:
        return "; ".join(dict.fromkeys(self.reasons))
