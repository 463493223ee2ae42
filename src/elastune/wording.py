"""Formatting for messages and tables: durations, money, sizes, shares, short values, lists, suggestions."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable


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
    """`$1,234.56`; four decimals below ten cents."""
    if amount != 0 and abs(amount) < 0.1:
        return f"${amount:.4f}"
    return f"${amount:,.2f}"


def time_and_money(seconds: float, usd: float) -> str:
    """`15m46s and $12.24`; what costs nothing has no price."""
    return format_duration(seconds) + (f" and {format_usd(usd)}" if usd else "")


def format_bytes(count: int) -> str:
    """`512 bytes`, `1.5 MB`: powers of ten, as in the job file."""
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def write_duration(seconds: float) -> str:
    """`14m12s`, `11h59m29s`: whole seconds, in the notation of job files."""
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


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlevel = 2


def seen(value: object) -> str:
    """A value in a message, cut to a readable length at any depth."""
    return "empty" if value is None else _short.repr(value)


def either(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def several(words: Iterable[str], most: int = 12) -> str:
    """`a, b, c`; of a list longer than `most`, the number of the others."""
    listed = list(words)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more if listed else "none"


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that was probably intended, if any."""
    by_lower = {name.lower(): name for name in known}
    lower = str(word).lower()[:60]
    beginnings = [name for name in by_lower if len(lower) > 2 and name.startswith(lower)]
    close = beginnings or difflib.get_close_matches(lower, by_lower, n=1)
    return by_lower[close[0]] if close else None


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A suggestion to append to an error message, or nothing."""
    close = nearest(word, known) if isinstance(word, str) else None
    return f"; did you mean '{close}'?" if close else ""


_CREDENTIALS = re.compile(r"://[^/@\s]+@")


def without_secrets(text: str) -> str:
    """Removes user and password from URLs: foreign messages are copied into reports."""
    return _CREDENTIALS.sub("://", text)
