"""The metric of a job: which mode it has by default, and the stop condition, such as `accuracy >= 0.97`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from elastune.errors import JobError
from elastune.model.metric import Inequality, Mode, Target
from elastune.model.quantities import ExpectedError, parse_number, word
from elastune.wording import either

_WRITTEN = re.compile(r"([^<>=]+?)\s*(>=|<=|>|<)\s*([^<>=]+)")
_MOST_CHARACTERS = 300
# Metrics of which less is better. The short ones count as words of a name: `val_mse`, not `msecret`.
_LOSSES = ("loss", "error", "perplexity", "deviance", "divergence", "latency", "regret")
_SHORT_LOSSES = frozenset(
    {"mse", "rmse", "rmsle", "mae", "mape", "smape", "nll", "bpb", "bpc", "wer", "cer", "ppl", "fid"}
)


def misfit(target: Target, metric: str | None, mode: Mode | None) -> str | None:
    """The error that follows the name of the key; None: the target fits what is known so far."""
    if metric is not None and metric != target.metric:
        return (
            f"is {str(target)!r}, but the metric of the job is {metric!r}; expected a comparison of {metric}"
        )
    if mode is not None and mode is not target.mode:
        expected = either(each.value for each in Inequality if each.mode is mode)
        return (
            f"is {str(target)!r}, but mode is {mode.value}; expected {expected}, or mode: {target.mode.value}"
        )
    return None


def _parse(written: object) -> Target:
    if isinstance(written, Target):
        return written
    text = written.strip() if isinstance(written, str) else ""
    match = _WRITTEN.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    value = parse_number(match[3]) if match else None
    if match is None or value is None:
        raise ExpectedError("a metric compared with a number, such as accuracy >= 0.97 or loss < 0.1")
    return Target(metric=word(match[1]), comparison=Inequality(match[2]), value=value)


AnyTarget = Annotated[Target, PlainValidator(_parse), PlainSerializer(str)]


def default_mode(metric: str) -> Mode:
    """The largest value is best. A metric that looks like a loss needs a mode in the job."""
    words = set(re.split(r"[^a-z]+", metric.lower()))
    if words & _SHORT_LOSSES or any(name in metric.lower() for name in _LOSSES):
        raise JobError(
            f"mode is missing, and the metric {metric!r} looks like one to minimise; expected max or min"
        )
    return Mode.MAX
