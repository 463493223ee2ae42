"""What providers say about money: a price and its source, how time is billed, how often a node is taken.

A provider may have two functions for this, beside the one that makes it: `quote_price(options)`, which gives
a `Quotation`, and `interruptions_per_hour(options)`. Both take the job's `cluster.options`, check them and
raise `JobError`. Of an installed provider they are attributes of the object that its entry point names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from elastune.cluster import Billing
from elastune.providers.registry import GROUP, load_provider

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """What one node costs, by whom and of when."""

    usd_per_hour: float
    """Of the node that is asked for first."""
    source: str
    as_of: str
    """The date of the price, for people."""
    most_usd_per_hour: float | None = None
    """Of the dearest node that may come in its place; None: none is dearer."""
    remark: str = ""

    def __str__(self) -> str:
        """`EC2 on demand, us-east-1, price list of 16 Nov 2026`."""
        return f"{self.source} of {self.as_of}" + (f"; {self.remark}" if self.remark else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingRule:
    billing: Billing = Billing.INSTANCE
    minimum_charge_s: float = 60.0
    increment_s: float = 1.0
    """A node is charged for whole ones of these."""
    parting_s: float = 0.0
    """A node that has to end by itself may go on costing money for so long."""
    least_life_s: float = 0.0
    """It is not worth asking for a node that may not live for so long."""


USUAL_BILLING = BillingRule()
BILLING_RULES: Mapping[str, BillingRule] = {
    # https://aws.amazon.com/ec2/pricing/on-demand: by the second, a minute at least (Linux).
    # A node looks at its lease every few seconds; to shut down takes the rest.
    "ec2": BillingRule(minimum_charge_s=60.0, increment_s=1.0, parting_s=60.0, least_life_s=120.0),
}
# The module that has both functions; imported when they are asked for.
_BUILT_IN = {"ec2": "elastune.providers.ec2.prices"}
# Known to have neither; so the installed packages need not be looked through, which takes a while.
_SILENT = ("local", "simulated")


def billing_rule(provider: str) -> BillingRule:
    return BILLING_RULES.get(provider, USUAL_BILLING)


def price_teller(provider: str) -> Callable[[Options], Quotation] | None:
    """None: this provider knows no prices, and the job has to say what a node costs."""
    return _companion(provider, "quote_price")


def interruption_teller(provider: str) -> Callable[[Options], float] | None:
    """Tells how often a node is expected to be taken away per hour; None: nobody knows of any such thing."""
    return _companion(provider, "interruptions_per_hour")


def _companion(provider: str, name: str) -> Callable[[Options], Any] | None:
    if provider in _BUILT_IN:
        return getattr(import_module(_BUILT_IN[provider]), name)  # type: ignore[no-any-return]
    if provider in _SILENT or not entry_points(group=GROUP, name=provider):
        return None
    return getattr(load_provider(provider), name, None)
