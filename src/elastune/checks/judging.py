"""From what the processes of a check saw to findings: a verdict, the line, and what to write there."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from elastune.checks.messages import DetourSeen, ProbeSeen, SoloSeen, UserFault
from elastune.checks.report import CheckFinding, CheckStatus, CodePlace
from elastune.checks.source import defines, find_place, plain_code, results_of_step
from elastune.training.signatures import first_argument, how_to_configure
from elastune.wording import did_you_mean, format_duration, several

METRIC, SAVING, DEVICE, TRAINING = "metric", "save and load", "device", "training"
_ROUNDING = 1e-5
_NAMED = 4


def fine(about: str, text: str) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.FINE, text=text)


def note(about: str, text: str, place: CodePlace | None = None, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.NOTE, text=text, place=place, remedy=remedy)


def warning(about: str, text: str, place: CodePlace | None = None, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.WARNING, text=text, place=place, remedy=remedy)


def failed(about: str, text: str, place: CodePlace | None = None, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.FAILED, text=text, place=place, remedy=remedy)


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
        yield from _saving(solo, seen, user, metric)


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
    if fault.stage.startswith("save"):
        place = fault.place or _saving_place(user)
        return failed(SAVING, f"{fault.stage} raised {fault.error}", place, _HOW_TO_SAVE)
    return failed(
        TRAINING, f"{fault.stage} raised {fault.error}", fault.place, _how_to_take_config(fault, user)
    )


def _how_to_report(metric: str, reported: Sequence[str], place: CodePlace | None, user: object) -> str:
    """`place` None: the code that reports is not the user's, such as that of an adapter."""
    word = "yield" if inspect.isgeneratorfunction(plain_code(user)) else "return"
    write = f"write {word} {{{metric!r}: value}}"
    if not reported:
        return write
    names = f"as `metric` into the job one of: {several(reported)}{did_you_mean(metric, reported)}"
    return f"write {names}" if place is None else f"{write}, or {names}"


def _how_to_take_config(fault: UserFault, user: object) -> str | None:
    """Of a function that computes with its configuration as if it were one hyperparameter."""
    code = plain_code(user)
    if isinstance(code, type) or "TypeError" not in fault.error or "dict" not in fault.error:
        return None
    first = first_argument(code)
    return None if first in (None, "config") else how_to_configure(code, first)


_HOW_TO_SAVE = (
    "save what is needed to continue as dicts of tensors, arrays and numbers, such as "
    '{"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}'
)


def _saving_place(user: object) -> CodePlace | None:
    return find_place(user, defines("save"))


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


# Saving and continuing.


def _saving(solo: SoloSeen, seen: ProbeSeen, user: object, metric: str) -> Iterator[CheckFinding]:
    if not solo.saves and solo.offers_save and not is_declared_unsaved(user):
        yield warning(
            SAVING,
            "`state` is ignored: the training gives a state to save and never reads it, so a trial that is "
            "paused or moved trains again from its beginning",
            find_place(user),
            _how_to_load(user),
        )
        return
    if not solo.saves:
        yield note(
            SAVING,
            "the trainable cannot be saved: a trial that is paused or moved trains again from its beginning",
            _saving_place(user),
            "if that costs too much, write save() and load(state), or `yield metrics, save`",
        )
        return
    detour = seen.detour
    if detour is None:
        return
    if detour.fault is not None:
        place = detour.fault.place or find_place(user, defines("load"))
        text = f"{detour.fault.stage} raised {detour.fault.error}"
        yield failed(SAVING, text, place, "load(state) gets what save() returned")
        return
    yield _continued(solo, detour, user, metric)


def is_declared_unsaved(user: object) -> bool:
    """The user says `saves = False`."""
    return getattr(user, "saves", True) is False


def _continued(solo: SoloSeen, detour: DetourSeen, user: object, metric: str) -> CheckFinding:
    """Whether going on from a state is like going on without a pause."""
    expected = None if solo.ended else solo.rows[-1]
    found = detour.row
    if expected is None and found is None:
        return fine(SAVING, "a training that has finished stays finished when it is loaded")
    same_metric = expected is not None and found is not None and _equal(expected[metric], found.get(metric))
    if same_metric and not detour.differing:
        return fine(
            SAVING, "a new instance continues from a saved state as if it had not paused, bit for bit"
        )
    if _is_ignored(detour):
        unread = "the saved state is never read"
        what = "load restores nothing of the saved state" if detour.was_read else unread
        return failed(
            SAVING,
            f"{what}: a trial that is paused starts again from nothing, while the run counts its iterations",
            find_place(user, defines("load")),
            _how_to_load(user),
        )
    if expected is None or found is None:
        ended, other = ("ends", "goes on") if expected is None else ("goes on", "ends")
        text = f"after iteration 1 the training {ended}, but a new one from its saved state {other}"
        return failed(SAVING, text, find_place(user, defines("load")), "save the iteration and load it")
    apart = f"{metric} is {found.get(metric, math.nan):.6g} instead of {expected[metric]:.6g}"
    names = several([each.path for each in detour.differing], _NAMED)
    largest = max((each.relative for each in detour.differing), default=0.0)
    largest = max(largest, _apart(expected[metric], found.get(metric, math.nan)))
    if largest < _ROUNDING:
        return note(SAVING, f"continuing from a saved state is equal up to rounding ({largest:.1g}): {names}")
    return _differs(detour, user, f"{apart}; different: {names}")


def _differs(detour: DetourSeen, user: object, what: str) -> CheckFinding:
    text = f"an iteration after save and load differs from one without a pause: {what}"
    if detour.lost:
        return warning(
            SAVING,
            f"load does not restore {several(detour.lost, _NAMED)}; {what}",
            find_place(user, defines("load")),
            "restore in load(state) all that save() returned",
        )
    if detour.unsaved:
        names = several(detour.unsaved, _NAMED)
        return warning(
            SAVING,
            f"{text}. The state has nothing of {names}: its momentum and the like are lost at each pause",
            _saving_place(user),
            f"save {detour.unsaved[0]}.state_dict() with the model, and load it again",
        )
    if detour.lost is not None:
        return note(
            SAVING,
            f"{text}. The saved state was restored completely, so the training is not deterministic",
            remedy="random numbers of `random`, numpy and torch are seeded; own generators need the seed "
            "worker.seed and worker.iteration",
        )
    if detour.was_read and not detour.unread:
        return note(
            SAVING,
            f"{text}. The saved state was read completely, so random numbers may be the reason: a function "
            "draws others in its first iteration after a pause",
            remedy="loop over worker.loader(loader) or worker.batches(data, batch), whose order depends on "
            "the iteration only",
        )
    if detour.unread:
        parts = several([f"state[{each!r}]" for each in detour.unread], _NAMED)
        text = f"{parts} is saved and never read; {what}"
    return warning(SAVING, text, _saving_place(user), _how_to_load(user))


def _is_ignored(detour: DetourSeen) -> bool:
    """Nothing was read, or nothing of what had changed was restored."""
    if detour.was_read is False:
        return True
    return bool(detour.lost) and len(detour.lost or ()) >= detour.changed > 0


def _how_to_load(user: object) -> str:
    if isinstance(plain_code(user), type):
        return 'in load(state), restore what save() returned: self.model.load_state_dict(state["model"])'
    return (
        'restore it before the loop: if state is not None: model.load_state_dict(state["model"]); '
        'first = state["epoch"]'
    )


def _equal(one: float, other: float | None) -> bool:
    return other is not None and (one == other or (math.isnan(one) and math.isnan(other)))


def _apart(one: float, other: float) -> float:
    scale = max(abs(one), abs(other))
    return abs(one - other) / scale if scale else 0.0
