"""From what a check saw to findings about state: a trial can be saved, continues as if without a pause, and
leaves nothing to the next trial in its process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from elastune.checks.messages import DetourSeen, ProbeSeen, SoloSeen
from elastune.checks.remembered import MODE, forgotten
from elastune.checks.report import CheckFinding, CodePlace, failed, fine, note, warning
from elastune.checks.source import assigns_global, calls, defines, find_place, plain_code
from elastune.checks.unsaved_memory import ChangedGlobal, is_schedule, started_again
from elastune.wording import several

SAVING, GLOBALS = "save and load", "globals"
_DIFFERS = "an iteration after save and load differs from one without a pause"
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
    if same_metric and not detour.differing:
        return _equal_so_far(started_again(solo.counters, detour.counters), _missing(solo, detour), user)
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
    return _differs(detour, solo, user, what)


def _missing(solo: SoloSeen, detour: DetourSeen) -> list[str]:
    """What a new training does not get back: for a class, all that `load` did not restore of what the first
    iteration had changed; otherwise what learns and is in no part of the state."""
    lost = forgotten(solo.memory[0], solo.memory[1], detour.memory) if len(solo.memory) > 1 else []
    return list(dict.fromkeys([*lost, *solo.left_out]))


def _equal_so_far(again: Sequence[str], missing: Sequence[str], user: object) -> CheckFinding:
    """A schedule may change something only later."""
    text = "a new instance continues from a saved state as if it had not paused, bit for bit"
    if any(map(is_schedule, again)):
        return _starts_again(again, user, "")
    owners = {name.rpartition(".")[0] for name in again}
    again = list(dict.fromkeys([*again, *(each for each in missing if each not in owners)]))
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
        f"depends on {'it' if verb == 'starts' else 'them'}, such as the learning rate"
        f"{f'; {_DIFFERS}: {what}' if what else ''}",
        saving_place(user),
        remedy,
    )


def _differs(detour: DetourSeen, solo: SoloSeen, user: object, what: str) -> CheckFinding:
    """The first reason that was seen."""
    again, missing = started_again(solo.counters, detour.counters), _missing(solo, detour)
    if detour.lost:
        return warning(
            SAVING,
            f"load does not restore {several(detour.lost, _NAMED)}; {what}",
            find_place(user, defines("load")),
            "restore in load(state) all that save() returned",
        )
    for reason, found in (
        (detour.orphaned, _trains_another),
        (detour.unsaved, _loses_memory),
        (detour.unread, _is_unread),
        (again, _starts_again),
        (solo.waiting, _are_waiting),
        (missing, _is_missing),
    ):
        if reason:
            return found(reason, user, what)
    return _unexplained(detour, user, f"{_DIFFERS}: {what}", draws=solo.draws)


def _loses_memory(optimizers: Sequence[str], user: object, what: str) -> CheckFinding:
    return warning(
        SAVING,
        f"{_DIFFERS}: {what}. The state has nothing of {several(optimizers, _NAMED)}: its momentum and the "
        "like are lost at each pause",
        saving_place(user),
        f"save {optimizers[0]}.state_dict() with the model, and load it again",
    )


def _is_unread(keys: Sequence[str], user: object, what: str) -> CheckFinding:
    parts = several([f"state[{each!r}]" for each in keys], _NAMED)
    return warning(SAVING, f"{parts} is saved and never read; {what}", saving_place(user), _how_to_load(user))


def _trains_another(optimizers: Sequence[str], user: object, what: str) -> CheckFinding:
    name = optimizers[0]
    return failed(
        SAVING,
        f"after load, {name} trains a model that is not there any more, so a trial learns nothing after a "
        f"pause; {what}",
        find_place(user, defines("load")),
        f"load into the model of setup, or make {name} again with the parameters of the new one",
    )


def _is_missing(missing: Sequence[str], user: object, what: str) -> CheckFinding:
    verb = "is" if len(missing) == 1 else "are"
    remedy = f"save {missing[0]} with the rest, and restore it"
    if missing[0].startswith(MODE):
        remedy = f"call {missing[0].removeprefix(MODE)}.train() where an iteration begins"
    return warning(
        SAVING,
        f"{several(missing, _NAMED)} {verb} not as before after a pause: in no part of the state, or not "
        f"restored; {what}",
        saving_place(user),
        remedy,
    )


def _are_waiting(models: Sequence[str], user: object, what: str) -> CheckFinding:
    return warning(
        SAVING,
        f"an iteration adds to the gradients that the one before it left in {several(models, _NAMED)}; these "
        f"are lost at each pause; {what}",
        find_place(user, calls("backward")),
        "at the end of an iteration, call optimizer.step() and optimizer.zero_grad()",
    )


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


def judge_globals(solo: SoloSeen, seen: ProbeSeen, user: object, metric: str) -> Iterator[CheckFinding]:
    """A slot trains one trial after the other in one process."""
    row = None if seen.detour is None else seen.detour.row
    is_other = row is not None and not _equal(solo.rows[-1][metric], row.get(metric))
    for about in sorted(solo.changed, key=lambda each: not each.learns)[:_NAMED]:
        yield _changed(about, user, matters=is_other)


def _changed(about: ChangedGlobal, user: object, *, matters: bool) -> CheckFinding:
    """`matters`: the metric was another where it had not been changed; most counters only count."""
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
    if about.counts:
        status = warning if matters else note
        return status(
            GLOBALS,
            f"{what}: the next trial goes on from its value",
            place,
            "keep it in the trial: as an attribute that setup() sets, or a variable of the function",
        )
    return warning(
        GLOBALS,
        f"{what}: the next trial gets the changed numbers",
        place,
        f"change a copy instead, made where a trial starts: own = {about.name}.copy(), of torch .clone()",
    )
