"""What a bill has in it that nobody used."""

from __future__ import annotations

from elastune.units import format_duration


def tell_minimum_charge(seconds: float) -> str:
    """For quotes of runs that are shorter than that."""
    return f"a node is charged for at least {format_duration(seconds)} (cluster.minimum_charge)"
