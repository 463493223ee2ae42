"""A budget in slot-minutes: it limits what the nodes are billed for, also where they cost nothing."""

from __future__ import annotations

import pytest

from elastune.errors import JobError
from elastune.job.slot_budget import slot_minutes
from tests.runs.checked_run import checked_run, job_of


@pytest.mark.parametrize(
    ("written", "minutes"),
    [
        ("600 slot-minutes", 600.0),
        ("1,200 slot minutes", 1200.0),
        ("2.5 slot-hours", 150.0),
        ("$30", None),
        (30, None),
    ],
)
def test_slot_minutes_and_hours_are_read(written: object, minutes: float | None) -> None:
    assert slot_minutes(written) == minutes


def test_a_slot_minute_costs_its_share_of_the_node() -> None:
    assert job_of(budget="10 slot-minutes").budget == pytest.approx(10 * 36.0 / 60 / 2)
    assert job_of(budget="1 slot-hour").budget == pytest.approx(18.0)


def test_where_nodes_cost_nothing_it_limits_all_the_same() -> None:
    job = job_of(
        search={"algorithm": "asha", "max_iterations": 81},
        budget="12 slot-minutes",
        cluster__price_per_hour=0,
        cluster__minimum_charge=0,
    )
    run = checked_run(job, seed=1)
    slot_s = run.usd / 0.01 * 60.0
    assert 0.5 * 12 * 60 < slot_s <= 12 * 60 * (1 + 1e-9)
    assert "counts as a cent" in run.state.terms.cluster.price_source


def test_it_needs_one_price() -> None:
    with pytest.raises(JobError, match=r"budget is 10 slot-minutes, but the job has no single price"):
        job_of(budget="10 slot-minutes", cluster__price_per_hour=None)
