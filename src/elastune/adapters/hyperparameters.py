"""torch's optimizers keep in one dict what was configured and what was learned; a config may have changed.

So a state also has the options with which its optimizers began. Where those of the present config differ, the
present ones count; a learning rate that a schedule has changed since is changed in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Options: TypeAlias = list[dict[str, Any]]
"""Of one optimizer: of each group of parameters."""


def options_of(optimizers: Iterable[Any]) -> list[Options]:
    """As configured: taken before anything is loaded. A schedule may already have changed the rate."""
    return [[_options(group) for group in each.param_groups] for each in optimizers]


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in group.items() if name not in ("params", "initial_lr")}
    return options | {"lr": group.get("initial_lr", group["lr"])}


def renew(
    saved: Sequence[Mapping[str, Any]],
    schedules: Sequence[dict[str, Any]],
    began: Sequence[Options],
    present: Sequence[Options],
) -> None:
    """Bring the hyperparameters of the present config into saved states of optimizers and schedules."""
    for number, (state, before, now) in enumerate(zip(saved, began, present, strict=True)):
        ratios = []
        for group, old, new in zip(state["param_groups"], before, now, strict=True):
            ratio = new["lr"] / old["lr"] if old.get("lr") else 1.0
            changed = {name: value for name, value in new.items() if name in old and value != old[name]}
            scaled = {name: group[name] * ratio for name in ("lr", "initial_lr") if name in group}
            group.update(changed | (scaled if "lr" in changed else {}))
            ratios.append(ratio)
        if len(schedules) == len(saved):
            _rescale(schedules[number], ratios)


def _rescale(schedule: dict[str, Any], ratios: Sequence[float]) -> None:
    for name in ("base_lrs", "_last_lr"):
        if len(values := schedule.get(name) or []) == len(ratios):
            schedule[name] = [
                value * ratio if ratio != 1.0 else value for value, ratio in zip(values, ratios, strict=True)
            ]
