"""Whether two workers share the work of a training: what the processes of a check saw, judged."""

from __future__ import annotations

import numpy as np

from elastune.checks.messages import GangSeen, ProbeSeen, RankSeen, SoloSeen
from elastune.checks.report import CheckFinding, CodePlace, fine, note, warning
from elastune.checks.source import calls, calls_outside_worker, find_place, results_of_step
from elastune.training.sharing import HOW_TO_SHARE, Numbers, Sharing
from elastune.wording import several

GANGS = "gangs"
# Of the largest weight or gradient: more than rounding, less than another learning rate.
_ALIKE = 1e-3
_HELD = "every trial is held to one slot"
_NO_MODEL = "every trial trains on one slot: it has no torch model that several workers could train together"
_HOW_TO_SUM = (
    "to share other work, split it by worker.rank and worker.size, or by worker.batches, and add the results "
    "with worker.sum"
)


def judge_gang(
    seen: ProbeSeen, user: object, declared: int | None, *, metric: str = "", asked: bool = False
) -> tuple[Sharing, list[CheckFinding]]:
    """`declared` is the trainable's `most_slots`; 1: it wants no gangs. `asked`: the job asks for several
    slots per trial."""
    solo = seen.solo
    if declared == 1:
        return Sharing.UNCHECKED, [fine(GANGS, "most_slots is 1: every trial trains on one slot")]
    if seen.gang is None and seen.cut_at is not None and (solo is None or solo.fault is None):
        return Sharing.UNCHECKED, [warning(GANGS, f"not checked, the time was over; {_HELD}")]
    if solo is None or solo.fault is not None or not solo.rows or solo.diverged:
        return Sharing.UNCHECKED, []
    if seen.gang is None:
        return Sharing.NOT_SHOWN, [_not_tried(solo, user, is_wanted=asked or declared is not None)]
    reason = _why_not_shared(seen.gang)
    if reason is not None:
        return Sharing.NOT_SHOWN, [_not_shared(reason, user)]
    shown = fine(GANGS, "two workers train one model, each on its part of the data")
    told = [*_learns_otherwise(seen.gang, solo), *_reports_its_share(seen.gang, user, metric)]
    if "batches" in solo.calls and "backward" not in solo.calls:
        told.append(_weights_shares_equally(user))
    return Sharing.SHOWN, [shown, *told]


def _not_tried(solo: SoloSeen, user: object, *, is_wanted: bool) -> CheckFinding:
    """`is_wanted`: several slots per trial were asked for; otherwise nothing is lost without a model."""
    if solo.calls & {"wrap", "sum"}:
        own = (
            "the training loops over its own data, which a gang would not split: the batch would grow with it"
        )
        return _not_shared(own, user)
    if solo.learns:
        return _not_shared(
            "the workers of a gang would share nothing: each would train a model of its own", user
        )
    return (warning if is_wanted else note)(GANGS, _NO_MODEL, find_place(user), _HOW_TO_SUM)


def _why_not_shared(gang: GangSeen) -> str | None:
    first, second = gang.ranks
    faults = [rank.fault for rank in gang.ranks if rank.fault is not None]
    if faults:
        # A lost peer is the result of the other's error.
        own = next((each for each in faults if each.place is not None), faults[0])
        where = "" if own.place is None else f" ({own.place})"
        return f"two workers fail: {own.stage} raised {own.error.splitlines()[0]}{where}"
    if not (first.exchanges and second.exchanges):
        return "two workers exchange nothing: each trains a model of its own"
    unequal = _unequal_weights(gang)
    if unequal is not None:
        return f"after one iteration two workers {unequal}"
    if not _saw_different_data(first, second):
        return "two workers train on the same data: the second one adds nothing"
    return None


def _unequal_weights(gang: GangSeen) -> str | None:
    first, second = gang.ranks
    if first.weights != second.weights:
        return "have different weights: their gradients are not shared"
    apart = [name for name, found in first.models.items() if second.models.get(name) != found]
    if apart:
        return f"have different weights in {several(apart, 3)}, which learns and is not wrapped"
    unequal = _unequal_learned(gang)
    return f"differ in {several(unequal, 3)}, which is not shared" if unequal else None


def _unequal_learned(gang: GangSeen) -> list[str]:
    """Parts of the states that differ, without what belongs to each rank, as the means of BatchNorm."""
    buffers = {name.removeprefix("module.") for rank in gang.ranks for name in rank.buffers}
    return [
        each.path
        for each in gang.differing
        if not any(each.path == name or each.path.endswith(f".{name}") for name in buffers)
    ]


def _saw_different_data(first: RankSeen, second: RankSeen) -> bool:
    return any(first.given[kind] != second.given[kind] for kind in first.given)


def _not_shared(reason: str, user: object) -> CheckFinding:
    return warning(GANGS, f"{reason}; {_HELD}", _place(user), f"to use more slots per trial, {HOW_TO_SHARE}")


def _place(user: object) -> CodePlace | None:
    return find_place(user, calls_outside_worker("backward"), calls("DataLoader"))


def _learns_otherwise(gang: GangSeen, solo: SoloSeen) -> list[CheckFinding]:
    """Compared with one worker after the same batches."""
    together, alone = gang.ranks[0].snapshot, solo.snapshot
    if together is None or alone is None:
        return []
    apart = _distance(together, alone)
    if apart <= _ALIKE:
        return [fine(GANGS, "two workers learn what one worker learns")]
    text = f"after a few batches, weights or gradients of two workers differ by {apart:.2g} from those of one"
    remedy = (
        "BatchNorm, dropout and augmentation do that; without them, look at the loss: in a loop over "
        "worker.loader worker.backward(loss) takes the mean of the batch, in worker.batches the sum"
    )
    return [note(GANGS, text, remedy=remedy)]


def _weights_shares_equally(user: object) -> CheckFinding:
    """The mean over the workers of their means is the mean over the samples only if shares are equal."""
    return warning(
        GANGS,
        "loss.backward() gives the share of each worker the same weight, also where a batch cannot be "
        "divided equally: a trial would learn something else on three slots than on one",
        find_place(user, calls_outside_worker("backward")),
        "call worker.backward(loss) instead",
    )


def _reports_its_share(gang: GangSeen, user: object, metric: str) -> list[CheckFinding]:
    """The metrics of the first worker count. A model with BatchNorm differs a little on each."""
    first, second = ((rank.row or {}).get(metric) for rank in gang.ranks)
    if first is None or second is None or first == second or any(rank.buffers for rank in gang.ranks):
        return []
    text = (
        f"two workers report different values of {metric}, {first:.4g} and {second:.4g}: each of its own "
        "part of the data. That of the first one counts, so trials with more slots would be compared wrongly"
    )
    remedy = f"add up what belongs to {metric} with worker.sum(...), or take worker.mean(value, samples)"
    return [warning(GANGS, text, results_of_step(user), remedy)]


def _distance(found: list[Numbers], expected: list[Numbers]) -> float:
    """The largest difference of a tensor, relative to its largest value."""
    if [each.shape for each in found] != [each.shape for each in expected]:
        return float("inf")
    worst = 0.0
    for one, other in zip(found, expected, strict=True):
        scale = float(np.max(np.abs(other), initial=0.0))
        apart = float(np.max(np.abs(one - other), initial=0.0))
        worst = max(worst, apart / scale if scale else float(apart > _ALIKE))
    return worst
