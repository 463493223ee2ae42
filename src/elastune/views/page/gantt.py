"""Which trial had which slots, as plain data: what it did there, and why it left them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping

from elastune.core.commands import Ending
from elastune.history.gangs import GangLife
from elastune.history.notes import RunNote
from elastune.history.recorder import History
from elastune.history.trials import MetricPoints
from elastune.model.ids import Gang, TrialId
from elastune.views.figures.gantt_layout import Box, lay_out
from elastune.views.live.snapshot import format_clock
from elastune.wording import plural

Json = dict[str, object]
# A screen has no room for more, and a browser should not wait.
_MOST_BOXES = 6_000
_STOP_TOPIC = "stop"
_AT_LAST = {
    "finished": "its training was complete",
    "stopped": "stopped by the policy",
    "failed": "given up",
    "paused": "it has not gone on",
}


def gantt_json(history: History, slots_per_node: int, statuses: Mapping[TrialId, str]) -> Json:
    """`statuses`: of the trials now."""
    layout = lay_out(history, slots_per_node)
    ends, values = _ends(history, statuses), {trial: each.points for trial, each in history.trials.items()}
    boxes = sorted(layout.boxes, key=lambda box: box.until_s - box.from_s, reverse=True)[:_MOST_BOXES]
    return {
        "rows": layout.rows,
        "slots_per_node": slots_per_node,
        "left_out": layout.left_out,
        "lanes": [[life.node for life in lane] for lane in layout.lanes],
        "boxes": [_box(box, ends, values.get(box.trial, MetricPoints())) for box in boxes],
        "hidden": len(layout.boxes) - len(boxes),
    }


def _box(box: Box, ends: Mapping[tuple[TrialId, float], str], points: MetricPoints) -> Json:
    return {
        "trial": box.trial,
        "activity": "evaluating" if box.evaluates else box.activity.name.lower(),
        "top": box.top,
        "slots": box.slots,
        "from_s": round(box.from_s, 3),
        "until_s": round(box.until_s, 3),
        "end": ends.get((box.trial, box.until_s)),
        "value": value_at(points, box.until_s),
    }


def value_at(points: MetricPoints, at_s: float) -> float | None:
    """The last value reported until then."""
    found = bisect.bisect_right(points.times_s, at_s)
    return points.values[found - 1] if found else None


def _ends(history: History, statuses: Mapping[TrialId, str]) -> dict[tuple[TrialId, float], str]:
    """Why a gang left its slots, in words."""
    asked, successor = _stopped_on_request(history.remarks), dict[TrialId, GangLife]()
    ends: dict[tuple[TrialId, float], str] = {}
    last_formed_s = max((gang.formed_s for gang in history.gangs), default=0.0)
    for gang in reversed(history.gangs):
        if gang.end is not None:
            then, last = successor.get(gang.trial), _AT_LAST.get(statuses.get(gang.trial, ""), "")
            if history.ending not in {None, Ending.COMPLETE} and gang.until_s > last_formed_s:
                last = "the run ended"
            if gang.trial in asked:
                last = f"stopped on request: {asked[gang.trial]}"
            ends[gang.trial, gang.until_s] = _words(gang, then, last)
        successor[gang.trial] = gang
    return ends


def _stopped_on_request(notes: Iterable[RunNote]) -> dict[TrialId, str]:
    """The reasons, from notes such as "trial 3: it diverges"."""
    reasons: dict[TrialId, str] = {}
    for note in notes:
        trial, colon, reason = note.text.removeprefix("trial ").partition(": ")
        if note.topic == _STOP_TOPIC and colon and trial.isdecimal():
            reasons[TrialId(int(trial))] = reason
    return reasons


def _words(gang: GangLife, then: GangLife | None, last: str) -> str:
    what = {"paused": "saved", "crashed": "crashed", "lost": "lost with its node"}.get(gang.end or "", "")
    if then is not None:
        return f"{what}, then {_moved(gang.gang, then)}" if what else _moved(gang.gang, then)
    return ", ".join(filter(None, [what, last])) or "ended"


def _moved(before: Gang, then: GangLife) -> str:
    """What it has next, and where."""
    at = f"at {format_clock(then.formed_s)}"
    if set(then.gang) == set(before):
        return f"goes on there {at}"
    nodes = ", ".join(dict.fromkeys(str(slot.node) for slot in then.gang))
    return f"moves to {plural(len(then.gang), 'slot')} of {nodes} {at}"
