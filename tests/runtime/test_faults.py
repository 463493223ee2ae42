"""What may go wrong, as it is said on the command line."""

from __future__ import annotations

import dataclasses

import pytest

from elastune.errors import JobError
from elastune.providers.simulated_faults import NodeFaults
from elastune.runtime.simulated.cloud import NO_FAULTS, PRESETS, Faults, parse_faults, write_faults


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", NO_FAULTS),
        ("mild", PRESETS["mild"]),
        ("harsh", PRESETS["harsh"]),
        ("crash=0.02", Faults(crash=0.02)),
        ("lost_per_hour=0.2", Faults(nodes=NodeFaults(lost_per_hour=0.2))),
        (
            " lost_per_hour = 0.2 , capacity=3,driver_per_hour=1e-1",
            Faults(nodes=NodeFaults(lost_per_hour=0.2, capacity=3), driver_per_hour=0.1),
        ),
        ("straggler=1,straggler_factor=2", Faults(nodes=NodeFaults(straggler=1.0, straggler_factor=2.0))),
        ("capacity=0", Faults(nodes=NodeFaults(capacity=0))),
        ("driver_down_s=0", Faults(driver_down_s=0.0)),
    ],
)
def test_faults_are_a_preset_or_keys_with_values(text: str, expected: Faults) -> None:
    assert parse_faults(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "--faults has ''"),
        ("hars", r"--faults has 'hars' \(did you mean harsh\?\); expected none, mild, harsh, or key=value"),
        ("lost=0.1", "--faults has 'lost=0.1'"),
        ("lost_per_hours=0.1", r"did you mean lost_per_hour\?"),
        ("crash", "--faults has 'crash'"),
        ("crash=", "crash is '', expected a number"),
        ("crash=often", "crash is 'often', expected a number"),
        ("capacity=1.5", "capacity is '1.5', expected a number"),
        ("crash=0.1,", "--faults has ''"),
        ("crash=0.1,mild", "--faults has 'mild'"),
        ("mild,harsh", "--faults has 'harsh'"),
        ("nodes=1", "--faults has 'nodes=1'"),
        ("crash=1.5", "crash is 1.5, expected a probability"),
        ("crash=-0.1", "crash is -0.1, expected a probability"),
        ("crash=nan", "crash is nan, expected a probability"),
        ("refused=2", "refused is 2.0, expected a probability"),
        ("lost_per_hour=-1", "lost_per_hour is -1.0, expected 0 or more"),
        ("lost_per_hour=inf", "lost_per_hour is inf"),
        ("straggler_factor=0.5", "straggler_factor is 0.5, expected 1 or more"),
        ("capacity=-1", "capacity is -1, expected 0 or more"),
        ("driver_per_hour=-1", "expected 0 or more"),
        ("driver_down_s=-1", "expected 0 or more"),
    ],
)
def test_what_is_not_understood_is_said(text: str, complaint: str) -> None:
    with pytest.raises(JobError, match=complaint):
        parse_faults(text)


def test_presets_get_worse() -> None:
    mild, harsh = PRESETS["mild"], PRESETS["harsh"]
    assert NO_FAULTS.crash < mild.crash < harsh.crash
    assert NO_FAULTS.nodes.lost_per_hour < mild.nodes.lost_per_hour < harsh.nodes.lost_per_hour


def test_a_preset_may_be_followed_by_what_differs() -> None:
    assert parse_faults("mild, crash=0.5") == dataclasses.replace(PRESETS["mild"], crash=0.5)
    nodes = dataclasses.replace(PRESETS["harsh"].nodes, refused=0.0, capacity=3)
    assert parse_faults("harsh,refused=0,capacity=3") == dataclasses.replace(PRESETS["harsh"], nodes=nodes)


@pytest.mark.parametrize(
    "text", ["none", "mild", "harsh", "mild,crash=0.5", "lost_per_hour=0.1", "harsh,driver_per_hour=0.0"]
)
def test_faults_are_written_as_they_are_read(text: str) -> None:
    assert write_faults(parse_faults(text)) == text
