"""What the plots of a run need, as plain data: thinned out here, so that a browser gets what it can draw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar

from elastune.history.nodes import NodeLife
from elastune.history.recorder import History
from elastune.history.trials import TrialHistory
from elastune.model.configuration import flattened
from elastune.model.metric import Mode
from elastune.runs.reading import node_counts, planned_money, planned_nodes
from elastune.views.live.snapshot import Snapshot
from elastune.views.page.follower import RunFollower
from elastune.views.page.gantt import gantt_json

T = TypeVar("T")
Json = dict[str, object]
# What is drawn at most: a screen has no room for more, and a browser should not wait.
_MOST_CURVES = 300
_MOST_POINTS = 60_000
_MOST_STEPS = 2_000


def snapshot_json(snapshot: Snapshot) -> Json:
    """With the properties that pages show beside the fields."""
    data = asdict(snapshot)
    for name in ("time", "money"):
        gauge = getattr(snapshot, name)
        if gauge is not None:
            data[name] |= {"full": gauge.full, "ahead": gauge.ahead, "in_danger": gauge.is_in_danger}
    data["nodes"]["busy"] = snapshot.nodes.busy
    return data


def figures_json(follower: RunFollower) -> Json:
    history, terms = follower.history(), follower.setup.terms
    data: Json = {
        "events": history.events,
        "end_s": history.end_s,
        "metric": terms.metric,
        "rises": terms.mode is Mode.MAX,
        "is_free": terms.cluster.is_free,
        "deadline_s": terms.limits.deadline_s,
        "budget_usd": terms.limits.budget_usd,
        "curves": _curves(history, terms.mode),
        "trials": len(history.trials),
        "best": _best(history),
        "nodes": [list(step) for step in thinned(node_counts(history))],
        "planned_nodes": planned_nodes(follower.plan),
        "money": thinned(history.money),
        "planned_money": planned_money(follower.plan),
        "gantt": gantt_json(history, terms.cluster.slots_per_node, follower.statuses()),
        "node_lives": [_node(life) for life in history.nodes[-_MOST_STEPS:]],
        "node_count": len(history.nodes),
        "spent": _spent(history, terms.cluster.slots_per_node),
    }
    whole = finite(data)
    assert isinstance(whole, dict)
    return whole


def _curves(history: History, mode: Mode) -> list[Json]:
    """The best trials first."""
    sign = -1.0 if mode is Mode.MAX else 1.0
    scored = [trial for trial in history.trials.values() if trial.points]
    ranked = sorted(scored, key=lambda trial: min(sign * each for each in trial.points.values))
    shown = ranked[:_MOST_CURVES]
    most = max(2, _MOST_POINTS // max(1, len(shown)))
    return [_curve(trial, most) for trial in shown]


def _curve(trial: TrialHistory, most: int) -> Json:
    points = thinned(trial.points, most)
    return {
        "trial": trial.trial,
        "config": flattened(trial.config),
        "iterations": [each.iteration for each in points],
        "seconds": [round(each.at_s, 3) for each in points],
        "values": [each.value for each in points],
        "crashes": [{"at_s": crash.at_s, "error": crash.error} for crash in trial.crashes],
    }


def _best(history: History) -> list[Json]:
    """Every new best model, with the time and the money spent until then."""
    steps: list[Json] = []
    for step in thinned(history.best):
        usd = money_at(history.money, step.at_s)
        steps.append(
            {
                "at_s": step.at_s,
                "usd": usd,
                "value": step.value,
                "trial": step.trial,
                "iteration": step.iteration,
            }
        )
    return steps


def money_at(money: Sequence[tuple[float, float]], at_s: float) -> float:
    """Accrued until then; linear between the points."""
    for (from_s, before), (until_s, after) in itertools.pairwise(money):
        if from_s <= at_s <= until_s:
            length_s = until_s - from_s
            return before + (after - before) * (at_s - from_s) / length_s if length_s > 0.0 else after
    return money[-1][1] if money and at_s > money[-1][0] else 0.0


def _spent(history: History, slots_per_node: int) -> Json:
    """Shares of the time for which nodes were held, by what they did; `idle`: nothing."""
    booting_s = held_s = 0.0
    for life in history.nodes:
        end_s = history.end_s if life.ended_s is None else life.ended_s
        held_s += end_s - life.born_s
        booting_s += (end_s if life.ready_s is None else life.ready_s) - life.born_s
    seconds = {"training": 0.0, "starting": 0.0, "saving": 0.0, "waiting": 0.0, "booting": booting_s}
    for gang in history.gangs:
        share = len(gang.gang) / slots_per_node
        for span in gang.spans:
            name = span.activity.name.lower()
            seconds[name] = seconds.get(name, 0.0) + share * (span.until_s - span.from_s)
    if held_s <= 0.0:
        return {}
    seconds["idle"] = max(0.0, held_s - sum(seconds.values()))
    return {name: each / held_s for name, each in seconds.items() if each > 0.0}


def _node(life: NodeLife) -> Json:
    return {key: value for key, value in asdict(life).items() if key != "request"}


def thinned(items: Sequence[T], most: int = _MOST_STEPS) -> list[T]:
    """Evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (most - 1)
    return [items[round(index * step)] for index in range(most)]


def finite(value: object) -> object:
    """JSON has neither NaN nor infinity."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {str(key): finite(each) for key, each in value.items()}
        case list() | tuple():
            return [finite(each) for each in value]
        case _:
            return value
