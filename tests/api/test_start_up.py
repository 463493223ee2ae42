"""The deadline counts from the command: what start-up takes is deducted, and waiting for an answer is not."""

from __future__ import annotations

import pytest

import elastune
from elastune.api.start_up import StartUp
from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.planning.infeasible import NoPlanError
from tests.runtime.real.runs import job_of


def quiet(text: str) -> None:
    pass


def never(text: str) -> None:
    raise AssertionError(text)


class Watch:
    """The user's."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


def job(deadline: str | None) -> Job:
    return job_of(deadline=deadline)


def test_the_plan_gets_what_is_left_when_the_cluster_has_started(watch: Watch) -> None:
    start_up = StartUp(age_s=2.0, clock=watch)  # the command was given before
    watch.now_s += 10.0
    told: list[str] = []
    planned = start_up.deduct(job("2m"), 120.0, told.append)
    assert planned.deadline == 120.0 - 12.0 - 4.0
    assert "12.0 s so far: the plan is for 1m44s of the deadline of 2m00s" in told[0]
    assert start_up.deduct(job("2m"), 120.0, told.append, address="auto").deadline == 120.0 - 12.0 - 1.0


def test_the_run_ends_at_the_deadline_by_the_users_watch_however_long_the_cluster_took(watch: Watch) -> None:
    for took_s in (1.0, 30.0):
        start_up = StartUp(clock=watch)
        start_up.deduct(job("2m"), 120.0, quiet)
        watch.now_s += took_s
        began = start_up.end(keeps_deadline=True)
        assert (began.startup_s, began.deadline_s) == (took_s, 120.0 - took_s)


def test_waiting_for_an_answer_does_not_count(watch: Watch) -> None:
    start_up = StartUp(clock=watch)
    with start_up.paused():
        watch.now_s += 3600.0
    watch.now_s += 5.0
    assert start_up.elapsed_s == 5.0


def test_without_a_deadline_or_with_one_that_was_given_up_only_the_time_is_told(watch: Watch) -> None:
    start_up = StartUp(clock=watch)
    watch.now_s += 5.0
    free = job(None)
    assert start_up.deduct(free, None, never) is free
    assert start_up.end(keeps_deadline=False).deadline_s is None
    start_up.deduct(job("2m"), 120.0, quiet)
    assert start_up.end(keeps_deadline=False).deadline_s is None


def test_a_start_up_that_uses_up_the_deadline_is_told(watch: Watch) -> None:
    start_up = StartUp(clock=watch)
    start_up.deduct(job("1m"), 60.0, quiet)
    watch.now_s += 70.0
    for step in (
        lambda: start_up.deduct(job("1m"), 60.0, quiet),
        lambda: start_up.end(keeps_deadline=True),
    ):
        with pytest.raises(InfeasibleError, match="the deadline of 1m00s counts from the command"):
            step()


def test_a_command_with_a_process_of_its_own_is_as_old_as_that() -> None:
    assert StartUp.of_process().elapsed_s > 0.0


def test_what_would_fit_is_said_without_the_start_up(watch: Watch) -> None:
    start_up = StartUp(age_s=10.0, clock=watch)
    planned = start_up.deduct(job("15s"), 15.0, quiet)
    told = "Of the deadline of 15.0 s start-up takes 11.5 s"
    with pytest.raises(NoPlanError, match=told), start_up.explained():
        elastune.quote(planned)


def test_what_is_measured_first_has_what_is_left_by_then(watch: Watch) -> None:
    start_up = StartUp(age_s=10.0, clock=watch)
    assert start_up.left_of(job("1m")).deadline == 50.0
    assert start_up.left_of(job(None)).deadline is None
    with pytest.raises(InfeasibleError, match="counts from the command"):
        start_up.left_of(job("9s"))
