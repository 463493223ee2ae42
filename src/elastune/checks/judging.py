"""From what the processes of a check saw to findings: a verdict, the line, and what to write there."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from elastune.checks.continuing import HOW_TO_SAVE, SAVING, judge_globals, judge_saving, saving_place
from elastune.checks.messages import ProbeSeen, SoloSeen, UserFault
from elastune.checks.report import CheckFinding, CodePlace, failed, fine, note, warning
from elastune.checks.source import defines, find_place, plain_code, results_of_step, yields
from elastune.training.signatures import first_argument, how_to_configure
from elastune.wording import did_you_mean, format_duration, several

METRIC, DEVICE, TRAINING, SPACE, DATA = "metric", "device", "training", "space", "data"
# What torch says where code asks for a GPU that is not there.
_NO_GPU = ("Torch not compiled with CUDA", "Found no NVIDIA driver", "No CUDA GPUs are available")


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Of a check. If a user asked for the check, a first iteration that is longer is a failure; before a run
    it may only be slow, and is left open."""

    seconds: float
    is_asked: bool = False


def judge_training(seen: ProbeSeen, user: object, metric: str, limit: TimeLimit) -> Iterator[CheckFinding]:
    """Whether it trains at all, reports its metric, saves and continues."""
    solo = seen.solo
    if seen.cut_at is not None:
        yield _cut(seen, limit)
    if seen.broken is not None:
        yield failed(TRAINING, seen.broken)
    if solo is None:
        return
    if solo.fault is not None:
        yield _fault(solo.fault, user, metric)
    yield from _metric(seen, solo, user, metric)
    yield from _device(solo)
    if solo.fault is None and solo.rows and not solo.diverged:
        yield from _space(solo, user)
        yield from _data(seen, solo, user)
        yield from judge_saving(solo, seen, user, metric)
        yield from judge_globals(solo, seen, user, metric)


def _cut(seen: ProbeSeen, limit: TimeLimit) -> CheckFinding:
    took = format_duration(limit.seconds)
    text = f"{seen.cut_at} had not ended when the time limit of {took} was over"
    where = " at the line below" if seen.cut_place is not None else ""
    remedy = (
        f"if it hangs{where}, mend it; if it is only slow, allow more time (`elastune check --most 30m`), "
        "make an iteration smaller, or start the run with --no-check (check=False in Python)"
    )
    has_trained = seen.solo is not None and seen.solo.fault is None and bool(seen.solo.rows)
    status = failed if limit.is_asked and not has_trained else warning
    return status(TRAINING, text, seen.cut_place, remedy)


def _fault(fault: UserFault, user: object, metric: str) -> CheckFinding:
    if fault.stage == "device":
        return failed(DEVICE, fault.error)
    if fault.reported is not None:
        place = results_of_step(user)
        return failed(METRIC, fault.error, place, _how_to_report(metric, fault.reported, place, user))
    if fault.stage == "close":
        return failed(TRAINING, fault.error, fault.place or find_place(user, yields))
    if fault.stage.startswith("save"):
        place = fault.place or saving_place(user)
        return failed(SAVING, f"{fault.stage} raised {fault.error}", place, HOW_TO_SAVE)
    remedy = _how_to_take_config(fault, user) or _how_to_use_the_device(fault)
    place = fault.place or (results_of_step(user) if "yielded" in fault.error else None)
    return failed(TRAINING, f"{fault.stage} raised {fault.error}", place, remedy)


def _how_to_report(metric: str, reported: Sequence[str], place: CodePlace | None, user: object) -> str:
    """`place` None: the code that reports is not the user's, such as that of an adapter."""
    word = "yield" if inspect.isgeneratorfunction(plain_code(user)) else "return"
    write = f"write {word} {{{metric!r}: value}}"
    if not reported:
        return write
    names = f"as `metric` into the job one of: {several(reported)}{did_you_mean(metric, reported)}"
    return f"write {names}" if place is None else f"{write}, or {names}"


def _how_to_use_the_device(fault: UserFault) -> str | None:
    """Of code that has the name of a device in it."""
    if not any(word in fault.error for word in _NO_GPU):
        return None
    return (
        "the slot has no GPU: use worker.device, or torch.cuda.is_available(), instead of 'cuda'; or ask for "
        "one, slot: {gpus: 1}"
    )


def _how_to_take_config(fault: UserFault, user: object) -> str | None:
    """Of a function that computes with its configuration as if it were one hyperparameter."""
    code = plain_code(user)
    if isinstance(code, type) or "TypeError" not in fault.error or "dict" not in fault.error:
        return None
    first = first_argument(code)
    return None if first in (None, "config") else how_to_configure(code, first)


# The metric.


def _also(diverged: Mapping[str, object] | None) -> str:
    return "" if diverged is None else f", also with {dict(diverged)}"


def _metric(seen: ProbeSeen, solo: SoloSeen, user: object, metric: str) -> Iterator[CheckFinding]:
    if not solo.rows:
        if solo.fault is None:
            text = "nothing was trained: the first iteration gave no metrics"
            yield failed(
                METRIC, text, results_of_step(user), f"report {{{metric!r}: value}} in each iteration"
            )
        return
    for number, row in enumerate(solo.rows, start=1):
        if metric not in row:
            found = several(sorted(row))
            text = f"iteration {number} reported no {metric!r}, only {found}"
            remedy = f"report {{{metric!r}: value}}, or write one of these as `metric` into the job"
            yield failed(METRIC, text, results_of_step(user), remedy)
            return
        if not math.isfinite(row[metric]):
            text = f"{metric} is {row[metric]} after iteration {number}{_also(seen.diverged)}"
            remedy = "report a finite number; if the training diverges, make the space smaller"
            yield failed(METRIC, text, results_of_step(user), remedy)
            return
    if seen.diverged is not None:
        text = f"{metric} is not finite after iteration 1 with {seen.diverged}; with other values it is"
        yield warning(METRIC, text, remedy="if many configurations diverge, make the space smaller")
    values = ", ".join(f"{row[metric]:.4g}" for row in solo.rows)
    others = sorted(set(solo.rows[0]) - {metric})
    beside = f"; also reported: {several(others)}" if others else ""
    yield fine(METRIC, f"{metric} is reported: {values}{beside}")


# The space.


def _space(solo: SoloSeen, user: object) -> Iterator[CheckFinding]:
    """Hyperparameters that are not read are tuned for nothing. Some are only for other configurations."""
    if not solo.unread:
        return
    names = several([f"config[{each!r}]" for each in solo.unread], 4)
    if solo.missed:
        asked = several([repr(each) for each in solo.missed], 4)
        yield warning(
            SPACE,
            f"the training never read {names}, and looked for {asked}, which the space does not have",
            find_place(user),
            "give both the same name",
        )
    elif len(solo.unread) == solo.hyperparameters:
        text = f"the training read none of its hyperparameters ({names}): all trials train the same"
        yield warning(SPACE, text, find_place(user), f"use {names} in the training")
    else:
        yield note(SPACE, f"the training did not read {names}, at least not with this configuration")


# Data in partitions.


def _data(seen: ProbeSeen, solo: SoloSeen, user: object) -> Iterator[CheckFinding]:
    if solo.ignores_data:
        yield warning(
            DATA,
            "the training never asked for worker.data, the partition of the visit: each visit of an epoch "
            "trains on the same data",
            find_place(user, defines("step")),
            "train on worker.data alone",
        )
    if seen.detour is not None and seen.detour.overwritten:
        yield warning(
            DATA,
            f"evaluate changes {several(seen.detour.overwritten, 4)}: models learn from the validation data",
            find_place(user, defines("evaluate")),
            "evaluate without training: with torch, model.eval() and torch.no_grad()",
        )


# The device.


def _device(solo: SoloSeen) -> Iterator[CheckFinding]:
    if solo.fault is not None and solo.fault.stage == "device":
        return
    if solo.gpu_bytes == 0 and solo.rows:
        yield warning(
            DEVICE,
            f"the slot has a GPU ({solo.device}), but the training put nothing on it",
            remedy="use model = worker.wrap(model), or model.to(worker.device) and x.to(worker.device)",
        )
    elif solo.rows:
        yield fine(DEVICE, f"trains on {solo.device}, as the slot asks")
