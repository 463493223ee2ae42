"""How durations, money, sizes, plain numbers and choices are written in a job.

Every function here parses text or a number into a number in the usual unit (seconds, US dollars, GB), or
raises `ExpectedError`, whose text completes the sentence "... is X; expected". Upper bounds are far beyond
any real job: they keep a typing error from overflowing a planner.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Annotated, Any

from elastune.wording import did_you_mean, either

MOST_SECONDS = 1e9
MOST_USD = 1e12
MOST_GB = 1e12
MOST_FACTOR = 1e6
MOST_ETA = 1_000_000

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_PLAIN = re.compile(rf"[-+]?{_NUMBER}")
_DURATION = re.compile(
    rf"(?:({_NUMBER})\s*d)?\s*(?:({_NUMBER})\s*h)?\s*(?:({_NUMBER})\s*m)?"
    rf"\s*(?:({_NUMBER})\s*s)?\s*(?:({_NUMBER})\s*ms)?"
)
_UNITS_S = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_MONEY = re.compile(
    r"\$?\s*((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)\s*(?:USD)?", re.IGNORECASE
)
_SIZE = re.compile(rf"({_NUMBER})\s*([kmgt]i?b)", re.IGNORECASE)
_UNITS_GB = {
    "kb": 1e-6, "mb": 1e-3, "gb": 1.0, "tb": 1e3,
    "kib": 2**10 / 1e9, "mib": 2**20 / 1e9, "gib": 2**30 / 1e9, "tib": 2**40 / 1e9,
}  # fmt: skip
_RUN_NAME = re.compile(r"\w[\w.-]{0,99}")
# No quantity is longer; longer text would make the patterns backtrack.
_MOST_CHARACTERS = 64


class PlannerName(enum.StrEnum):
    """Here, so that `--help` need not load the planners; a test compares them with the registry."""

    EXACT = "exact"
    GREEDY = "greedy"
    GREEDY_FAIR = "greedy-fair"
    STATIC = "static"
    NAIVE_ELASTIC = "naive-elastic"


class ExpectedError(ValueError):
    """A value does not fit; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class ParsedBy:
    """In an annotation: `parse` is applied to the input first."""

    parse: Callable[[object], object]

    # Pydantic's protocol for annotations, so that options can be declared without importing pydantic.
    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        parse = {"type": "no-info", "function": self.parse}
        return {"type": "function-before", "function": parse, "schema": handler(source)}


@dataclass(frozen=True, slots=True)
class Needed:
    """In an annotation of an option without a default: what is expected if it is missing."""

    text: str


def duration(value: object) -> float:
    return _seconds(value, "a duration, 0 or more", lambda s: s >= 0)


def positive_duration(value: object) -> float:
    return _seconds(value, "a positive duration", lambda s: s > 0)


def money(value: object) -> float:
    return _dollars(value, "US dollars, 0 or more", lambda usd: usd >= 0)


def positive_money(value: object) -> float:
    return _dollars(value, "a positive amount of US dollars", lambda usd: usd > 0)


def size_gb(value: object) -> float:
    """Gigabytes of 10^9 bytes."""
    match = _SIZE.fullmatch(_text(value))
    amount = float(match[1]) * _UNITS_GB[match[2].lower()] if match else parse_number(value)
    if amount is None or not 0 <= amount <= MOST_GB:
        raise ExpectedError("a size, 0 or more, such as 150GB, 500MB or 10GiB (a bare number is GB)")
    return amount


def positive_size_gb(value: object) -> float:
    amount = size_gb(value)
    if amount == 0:
        raise ExpectedError("a size of more than 0, such as 250MB")
    return amount


def word(value: object) -> str:
    """A name: one line of text without blanks at its ends."""
    if isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) == len(value) <= 200:
        return value
    raise ExpectedError("a name, such as accuracy")


def run_name(value: object) -> str:
    """A name that is also the prefix of a folder name."""
    if not isinstance(value, str) or not _RUN_NAME.fullmatch(value):
        raise ExpectedError("a name of letters, digits, '.', '_' and '-', up to 100, such as resnet-sweep")
    return value


def probability(value: object) -> float:
    return _number(value, "a number above 0 and below 1, such as 0.95", lambda amount: 0 < amount < 1)


def fraction(value: object) -> float:
    return _number(value, "a number above 0 and up to 1, such as 0.5", lambda amount: 0 < amount <= 1)


def spread(value: object) -> float:
    """The standard deviation of a factor around 1."""
    return _number(value, "a number from 0 to 100, such as 0.1 for 10 %", lambda amount: 0 <= amount <= 100)


def factor(value: object) -> float:
    """How many times faster something is."""
    return _number(value, "a positive number, such as 1.89", lambda amount: 0 < amount <= MOST_FACTOR)


def _number(value: object, expected: str, fits: Callable[[float], bool]) -> float:
    amount = parse_number(value)
    if amount is None or not fits(amount):
        raise ExpectedError(expected)
    return amount


def whole(value: object, *, least: int, most: int) -> int:
    """A whole number within bounds; `32`, `32.0` and `"32"` are the same."""
    amount = parse_number(value)
    if amount is None or amount != amount // 1 or not least <= amount <= most:
        raise ExpectedError(f"a whole number from {least} to {most:,}")
    return int(amount)


def eta(value: object) -> int | float:
    """One in eta trials goes on. A whole number stays one: what is computed from it is exact."""
    amount = parse_number(value)
    if amount is None or not 1 < amount <= MOST_ETA:
        raise ExpectedError(f"a number above 1 and up to {MOST_ETA:,}, such as 3 or 2.5")
    return int(amount) if amount == int(amount) else amount


@lru_cache(maxsize=64, typed=True)
def rational(number: float) -> int | Fraction:
    """The decimal that was written, so that floors of its powers are exact: 1.1 is 11/10, not 1.1000...09."""
    return number if isinstance(number, int) else Fraction(repr(number))


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ExpectedError("true or false")
    return value


def one_of(*allowed: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise ExpectedError(f"{either(allowed)}{did_you_mean(value, allowed)}")

    return parse


def parse_number(value: object) -> float | None:
    """The input as a finite number, or None. `True` is none; `1e-3` as text is one."""
    if isinstance(value, bool):
        return None
    text = _text(value)
    if not isinstance(value, Real) and not _PLAIN.fullmatch(text):
        return None
    try:
        amount = float(value if isinstance(value, Real) else text)
    except OverflowError:
        return None
    return amount if math.isfinite(amount) else None


def _seconds(value: object, expected: str, fits: Callable[[float], bool]) -> float:
    text = _text(value)
    match = _DURATION.fullmatch(text) if text else None
    if match:
        amount: float | None = math.fsum(
            float(part) * unit for part, unit in zip(match.groups(), _UNITS_S, strict=True) if part
        )
    else:
        amount = parse_number(value)
    if amount is not None and amount <= MOST_SECONDS and fits(amount):
        return amount
    colon = "; 1:30 could be minutes or hours, write 1m30s or 1h30m" if ":" in text else ""
    raise ExpectedError(f"{expected}, such as 90s, 20m, 1h30m or 250ms (a bare number is seconds){colon}")


def _dollars(value: object, expected: str, fits: Callable[[float], bool]) -> float:
    match = _MONEY.fullmatch(_text(value))
    amount = float(match[1].replace(",", "")) if match else parse_number(value)
    if amount is None or amount > MOST_USD or not fits(amount):
        raise ExpectedError(f"{expected}, such as $30, 30.5, $1,200 or 30 USD")
    return amount


def _text(value: object) -> str:
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= _MOST_CHARACTERS else ""


def _whole(least: int, most: int = 1_000_000) -> ParsedBy:
    return ParsedBy(lambda value: whole(value, least=least, most=most))


Duration = Annotated[float, ParsedBy(duration)]
PositiveDuration = Annotated[float, ParsedBy(positive_duration)]
Money = Annotated[float, ParsedBy(money)]
PositiveMoney = Annotated[float, ParsedBy(positive_money)]
SizeGb = Annotated[float, ParsedBy(size_gb)]
PositiveSizeGb = Annotated[float, ParsedBy(positive_size_gb)]
Word = Annotated[str, ParsedBy(word)]
Probability = Annotated[float, ParsedBy(probability)]
Spread = Annotated[float, ParsedBy(spread)]
Flag = Annotated[bool, ParsedBy(flag)]
Count = Annotated[int, _whole(1)]
Natural = Annotated[int, _whole(0)]
Iterations = Annotated[int, _whole(1, 1_000_000_000)]
Eta = Annotated[int | float, ParsedBy(eta)]
Retries = Annotated[int, _whole(0, 1_000)]
# The largest whole number that JSON, which knows only floats, carries without loss.
Seed = Annotated[int, _whole(0, 2**53 - 1)]
