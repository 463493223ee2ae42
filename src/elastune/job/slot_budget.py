"""A budget in slot-minutes, as SEER's paper counts it: `budget: 600 slot-minutes`, or `10 slot-hours`.

It becomes dollars where the job is read, at the price of the cluster: a slot-minute is `price_per_hour / 60 /
slots_per_node`. So one rule keeps every budget (`core/limits.py`), and what a node is billed for counts:
boots, idle slots and the minimum charge, too. Where nodes cost nothing a slot-minute counts as one cent, and
the source of the price says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from elastune.job.section import MisfitError
from elastune.model.quantities import parse_number

COUNTED = "none: a slot-minute counts as a cent"
_COUNTED_USD = 0.01
_WRITTEN = re.compile(r"([\d.,_]+)\s*slot[- ](minute|hour)s?", re.IGNORECASE)
_MOST_CHARACTERS = 100


def slot_minutes(written: object) -> float | None:
    """None: the budget is not written in slot-minutes."""
    text = written.strip() if isinstance(written, str) else ""
    match = _WRITTEN.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    amount = parse_number(match[1].replace(",", "")) if match else None
    if match is None or amount is None:
        return None
    return amount * (60.0 if match[2].lower() == "hour" else 1.0)


def in_dollars(sections: Mapping[str, object]) -> dict[str, object]:
    """What replaces the budget and, where nodes cost nothing, the cluster; empty: it is in dollars."""
    minutes, cluster = slot_minutes(sections.get("budget")), sections.get("cluster")
    if minutes is None or not isinstance(cluster, Mapping):
        return {}
    slots = parse_number(cluster.get("slots_per_node"))
    price = _price(cluster.get("price_per_hour"))
    if price is None or slots is None or slots < 1 or cluster.get("kinds"):
        raise MisfitError(
            ("budget",),
            f"is {sections['budget']}, but the job has no single price of a node; expected "
            "cluster.price_per_hour and cluster.slots_per_node, or a budget in dollars",
        )
    if price:
        return {"budget": minutes * price / 60.0 / slots}
    counted = {**cluster, "price_per_hour": _COUNTED_USD * 60.0 * slots, "price_source": COUNTED}
    return {"budget": minutes * _COUNTED_USD, "cluster": counted}


def _price(written: object) -> float | None:
    return parse_number(written.strip().lstrip("$").replace(",", "") if isinstance(written, str) else written)
