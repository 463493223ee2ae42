"""How a job says when a model is good enough: `stop_when: accuracy >= 0.97`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from elastune.quantities import ExpectedError, number, word
from elastune.spec import Comparison, Mode, Target
from elastune.wording import either

_WRITTEN = re.compile(r"([^<>=]+?)\s*(>=|<=|>|<)\s*([^<>=]+)")
_MOST_CHARACTERS = 300


def misfit(target: Target, metric: str | None, mode: Mode | None) -> str | None:
    """What does not go together, to follow the name of the key; None: it fits what is known so far."""
    if metric is not None and metric != target.metric:
        return (
            f"is {str(target)!r}, but the metric of the job is {metric!r}; expected a comparison of {metric}"
        )
    if mode is not None and mode is not target.mode:
        fitting = [each.value for each in Comparison if each.mode is mode]
        return (
            f"is {str(target)!r}, but mode is {mode.value}; expected {either(fitting)}, or mode: "
            f"{target.mode.value}"
        )
    return None


def _parse(written: object) -> Target:
    if isinstance(written, Target):
        return written
    text = written.strip() if isinstance(written, str) else ""
    match = _WRITTEN.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    value = number(match[3]) if match else None
    if match is None or value is None:
        raise ExpectedError("a metric compared with a number, such as accuracy >= 0.97 or loss < 0.1")
    return Target(metric=word(match[1]), comparison=Comparison(match[2]), value=value)


AnyTarget = Annotated[Target, PlainValidator(_parse), PlainSerializer(str)]
