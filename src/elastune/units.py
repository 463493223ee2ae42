"""How durations, money and shares are written for people."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """`850 ms`, `42.5 s`, `15m46s`, `1h30m`: two units at most."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    hours = round(seconds / 3600)
    return f"{hours // 24}d{hours % 24:02d}h"


def format_usd(amount: float) -> str:
    """`$1,234.56`; below ten cents with enough digits to tell two amounts apart."""
    if amount != 0 and abs(amount) < 0.1:
        return f"${amount:.4f}"
    return f"${amount:,.2f}"


def write_duration(seconds: float) -> str:
    """`14m12s`, `11h59m29s`: whole seconds, as a job file would have it."""
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def format_confidence(probability: float) -> str:
    """`95%`, `99.999%`: never rounded to certainty."""
    return f"{probability * 100:.10g}%"


def format_percent(share: float) -> str:
    """`43.4%`, `2.4%`."""
    return f"{share * 100:.3g}%"


def plural(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
