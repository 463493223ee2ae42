"""A state that goes on with another config: what was configured changes, what was learned stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from elastune.adapters.adapted_trainable import options_of, renew


def build(lr: float, momentum: float) -> tuple[Any, Any]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=lr, momentum=momentum)
    return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)


def trained(lr: float, momentum: float) -> tuple[Any, Any, Any]:
    """The states after two steps, and the options with which they began."""
    optimizer, schedule = build(lr, momentum)
    began = options_of([optimizer])
    for _ in range(2):
        optimizer.param_groups[0]["params"][0].sum().backward()
        optimizer.step()
        schedule.step()
    return optimizer.state_dict(), schedule.state_dict(), began


def gone_on(lr: float, momentum: float) -> tuple[Any, Any]:
    saved, schedule_state, began = trained(0.4, 0.9)
    optimizer, schedule = build(lr, momentum)
    renew([saved], [schedule_state], began, options_of([optimizer]))
    optimizer.load_state_dict(saved)
    schedule.load_state_dict(schedule_state)
    return optimizer, schedule


def test_the_same_config_changes_nothing() -> None:
    optimizer, schedule = gone_on(0.4, 0.9)
    assert optimizer.state_dict() | {"state": None} == trained(0.4, 0.9)[0] | {"state": None}
    assert schedule.state_dict() == trained(0.4, 0.9)[1]


def test_a_new_learning_rate_keeps_its_place_in_the_schedule() -> None:
    optimizer, schedule = gone_on(0.04, 0.9)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.04 * 0.5**3])


def test_other_options_are_those_of_the_config_and_what_was_learned_stays() -> None:
    optimizer, _ = gone_on(0.4, 0.5)
    assert optimizer.param_groups[0]["momentum"] == 0.5
    assert optimizer.param_groups[0]["lr"] == 0.1
    (state,) = optimizer.state_dict()["state"].values()
    assert state["momentum_buffer"].abs().sum() > 0
