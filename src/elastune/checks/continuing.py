"""From what a check saw to findings about state: a trial can be saved, continues as if without a pause, and
leaves nothing to the next trial in its process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from elastune.checks.messages import DetourSeen, ProbeSeen, SoloSeen
from elastune.checks.report import CheckFinding, CodePlace, failed, fine, note, warning
from elastune.checks.source import assigns_global, defines, find_place, plain_code
from elastune.checks.unsaved_memory import ChangedGlobal, is_schedule, started_again
from elastune.wording import several

SAVING, GLOBALS = "save and load", "globals"
_ROUNDING = 1e-5
_NAMED = 4
HOW_TO_SAVE = (
    "save what is needed to continue as dicts of tensors, arrays and numbers, such as "
    '{"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}'
)


def saving_place(user: object) -> CodePlace | None:
    return find_place(user, defines("save"))


def judge_saving(solo: SoloSeen, seen: ProbeSeen, user: object, metric: str) -> Iterator[CheckFinding]:
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
            saving_place(user),
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
    again = started_again(solo.counters, detour.counters)
    if same_metric and not detour.differing:
        return _equal_so_far(again, user)
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
    apart = f"{metric} is {found.get(metric, math.nan):.6g} instead of {expected[metric]:.6g}; "
    names = several([each.path for each in detour.differing], _NAMED)
    largest = max((each.relative for each in detour.differing), default=0.0)
    largest = max(largest, _apart(expected[metric], found.get(metric, math.nan)))
    if largest < _ROUNDING:
        return note(SAVING, f"continuing from a saved state is equal up to rounding ({largest:.1g}): {names}")
    what = f"{'' if same_metric else apart}different: {names}"
    return _differs(detour, user, what, again=again, draws=solo.draws)


def _equal_so_far(again: Sequence[str], user: object) -> CheckFinding:
    """A schedule may change something only later."""
    text = "a new instance continues from a saved state as if it had not paused, bit for bit"
    if any(map(is_schedule, again)):
        return _starts_again(again, user, "")
    if again:
        names = several(again, _NAMED)
        text += f"; only {names} {'starts' if len(again) == 1 else 'start'} again at each pause"
        remedy = f"if the training depends on {names}, save and load it as well"
        return note(SAVING, text, saving_place(user), remedy)
    return fine(SAVING, text)


def _starts_again(again: Sequence[str], user: object, what: str) -> CheckFinding:
    schedules = [name for name in again if is_schedule(name)]
    names = several(schedules or again, _NAMED)
    verb = "starts" if len(schedules or again) == 1 else "start"
    owner = schedules[0].rpartition(".")[0] if schedules else ""
    remedy = f"save {owner}.state_dict() with the model, and load it again"
    if not schedules:
        own = again[0].rpartition(".")[2]
        go_on = f"{again[0]} = state[{own!r}]" if own != again[0] else f"first = state[{own!r}] + 1"
        remedy = f"save {again[0]} with the model, and go on from it: {go_on}"
    return warning(
        SAVING,
        f"{names} {verb} again at each pause, and with {'it' if verb == 'starts' else 'them'} all that "
        f"depends on {'it' if verb == 'starts' else 'them'}, such as the learning rate{what}",
        saving_place(user),
        remedy,
    )


def _differs(
    detour: DetourSeen, user: object, what: str, *, again: Sequence[str], draws: bool
) -> CheckFinding:
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
            saving_place(user),
            f"save {detour.unsaved[0]}.state_dict() with the model, and load it again",
        )
    if detour.unread:
        parts = several([f"state[{each!r}]" for each in detour.unread], _NAMED)
        text = f"{parts} is saved and never read; {what}"
        return warning(SAVING, text, saving_place(user), _how_to_load(user))
    if again:
        return _starts_again(again, user, f"; {text}")
    return _unexplained(detour, user, text, draws=draws)


def _unexplained(detour: DetourSeen, user: object, text: str, *, draws: bool) -> CheckFinding:
    """All that was saved was restored, and it still differs."""
    if not draws:
        return warning(
            SAVING,
            f"{text}. It draws no seeded random numbers, so something that it needs is not in its state "
            "(a counter, a random generator of its own), or it is not deterministic",
            saving_place(user),
            HOW_TO_SAVE,
        )
    if detour.lost is not None:
        return note(
            SAVING,
            f"{text}. The saved state was restored completely, so the training is not deterministic",
            remedy="random numbers of `random`, numpy and torch are seeded; own generators need the seed "
            "worker.seed and worker.iteration",
        )
    if detour.was_read:
        return note(
            SAVING,
            f"{text}. The saved state was read completely, so random numbers may be the reason: a function "
            "draws others in its first iteration after a pause",
            remedy="loop over worker.loader(loader) or worker.batches(data, batch), whose order depends on "
            "the iteration only",
        )
    return warning(SAVING, text, saving_place(user), _how_to_load(user))


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


# What the next trial in the same process finds.


def judge_globals(solo: SoloSeen, user: object) -> Iterator[CheckFinding]:
    """A slot trains one trial after the other in one process."""
    for about in sorted(solo.changed, key=lambda each: not each.learns)[:_NAMED]:
        yield _changed(about, user)


def _changed(about: ChangedGlobal, user: object) -> CheckFinding:
    place = assigns_global(user, about.name) or find_place(user)
    what = f"the training changes {about.name}, which is made once for all trials of a process"
    if about.learns:
        return failed(
            GLOBALS,
            f"{what}: a new trial would start with the model of the trial before it",
            place,
            "make it where a trial starts, inside the function or in setup(); if the training resets it "
            "before each trial, leave the check out (--no-check, check=False)",
        )
    return warning(
        GLOBALS,
        f"{what}: the next trial gets the changed numbers",
        place,
        f"change a copy instead, made where a trial starts: own = {about.name}.copy(), of torch .clone()",
    )
