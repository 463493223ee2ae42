"""HyperSched: what each of its ideas does, and that it does nothing when switched off."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

import elastune
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.job.job import Job
from elastune.job.search_options import HyperSchedSearch
from elastune.model.ids import TrialId
from elastune.policies.hypersched import HyperSched
from elastune.policies.rungs import SeenRung
from tests.runs.rehearsal import Rehearsal, job_of, rehearse

BASE: dict[str, object] = {
    "deadline": 300.0,
    "profile": {"iteration": 1.0, "speedup": {"1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}},
    "cluster": {"slots_per_node": 4, "nodes": 2, "price_per_hour": 36.0},
}


def job(changes: Mapping[str, object] | None = None, **search: object) -> Job:
    chosen = {"algorithm": "hypersched", "min_iterations": 4, "max_iterations": 400, **search}
    return job_of(**{**BASE, "search": chosen, **(changes or {})})


def sizes(run: Rehearsal) -> set[int]:
    return {len(c.gang) for _, c in run.commands if isinstance(c, do.Train)}


def last_entry_s(run: Rehearsal) -> float:
    first: dict[int, float] = {}
    for at_s, command in run.commands:
        if isinstance(command, do.Train):
            first.setdefault(command.trial, at_s)
    return max(first.values())


def test_the_first_at_a_rung_go_on_and_are_paused_when_better_ones_come() -> None:
    rung = SeenRung(4)
    rung.record(TrialId(0), -0.5)
    assert rung.is_among_best(TrialId(0), 4, speculative=True)
    assert not rung.is_among_best(TrialId(0), 4, speculative=False)
    rung.record(TrialId(1), -0.9)
    assert not rung.is_among_best(TrialId(0), 4, speculative=True)
    assert rung.is_among_best(TrialId(1), 4, speculative=True)
    for number, score in ((2, -0.1), (3, -0.2)):
        rung.record(TrialId(number), score)
    assert rung.is_among_best(TrialId(1), 4, speculative=False)


def test_speculation_lets_the_best_train_further_by_a_short_deadline() -> None:
    with_it, without = (rehearse(job({"deadline": 40.0}, speculative=flag), seed=1) for flag in (True, False))
    most = [max(t.iteration for t in run.state.trials.values()) for run in (with_it, without)]
    assert most[0] > most[1]


def test_trials_stop_entering_when_they_can_no_longer_matter() -> None:
    by_deadline, always = (
        rehearse(job(entrance=how, max_iterations=10_000), seed=1) for how in ("deadline", "always")
    )
    assert last_entry_s(by_deadline) < last_entry_s(always)
    assert len(by_deadline.state.trials) < len(always.state.trials)


def test_a_share_of_the_time_for_entering() -> None:
    run = rehearse(job(entrance=0.2), seed=1)
    assert last_entry_s(run) <= 0.2 * 300.0


def test_free_slots_go_to_those_that_train() -> None:
    moved, fixed = (rehearse(job(reallocate=flag), seed=1) for flag in (True, False))
    assert max(sizes(moved)) == 8
    assert sizes(fixed) == {1}
    assert moved.state.best is not None
    assert fixed.state.best is not None
    assert moved.state.best.metric > fixed.state.best.metric


def test_nobody_is_resized_for_a_loss() -> None:
    """Twice as fast for the time left is not worth a start-up that takes most of it."""
    slow_start = {**BASE["profile"], "startup": 200.0}  # type: ignore[dict-item]
    run = rehearse(job({"profile": slow_start}), seed=1)
    assert sizes(run) == {1}


def test_without_scaling_nobody_is_resized() -> None:
    run = rehearse(job({"profile": {"iteration": 1.0}}), seed=1)
    assert sizes(run) == {1}


def test_blindfolded_it_believes_in_linear_scaling_without_overhead() -> None:
    run = rehearse(job({"profile": {"iteration": 1.0, "startup": 5.0}}, profiled=False), seed=1)
    assert max(sizes(run)) > 1


@pytest.mark.parametrize("cooldown", [0, 40])
def test_between_two_resizes_a_trial_trains_for_its_cooldown(cooldown: int) -> None:
    run = rehearse(job(cooldown=cooldown), seed=1)
    after: dict[int, list[tuple[int, int]]] = {}
    for _, command in run.commands:
        if isinstance(command, do.Train):
            history = after.setdefault(command.trial, [])
            if not history or history[-1][0] != len(command.gang):
                history.append((len(command.gang), command.after_iteration))
    steps = [
        later[1] - earlier[1]
        for history in after.values()
        for earlier, later in itertools.pairwise(history[1:])
        if later[0] > earlier[0]
    ]
    assert all(step >= cooldown for step in steps)


def test_no_trial_goes_through_a_rung_twice() -> None:
    """Read literally, `start_next_trial` would send trials back for ever."""
    run = rehearse(job(), seed=3)
    seen: dict[int, int] = {}
    for event, _ in run.told:
        if isinstance(event, ev.Progressed):
            for row in event.rows:
                assert row.iteration > seen.get(event.trial, 0)
                seen[event.trial] = row.iteration


def test_a_number_of_trials_ends_it_before_the_deadline() -> None:
    run = rehearse(job(trials=3, max_iterations=20), seed=1)
    assert run.state.ended is Ending.COMPLETE
    assert len(run.state.trials) == 3
    assert run.seconds < 300.0


def test_a_budget_without_a_deadline_is_time_too() -> None:
    run = rehearse(job({"deadline": None, "budget": 3.0}), seed=1)
    assert run.usd <= 3.0
    assert last_entry_s(run) < run.seconds


def test_the_entrance_can_be_a_number_or_a_word() -> None:
    assert HyperSched(HyperSchedSearch.model_validate({"entrance": 0.5})).options.entrance == 0.5
    assert HyperSched(HyperSchedSearch()).options.entrance == "deadline"


def test_it_ends_if_the_last_trial_is_stopped_before_it_has_begun() -> None:
    """A trial was promoted and, by the result of another, paused again while its gang started."""
    cluster = {"nodes": 1, "slots_per_node": 2, "price_per_hour": 1}
    search = {"algorithm": "hypersched", "trials": 27, "max_iterations": 27}
    job = {"trainable": "synthetic:hypersched", "profile": {"iteration": "300ms"}, "search": search}
    for seed in range(4):
        assert elastune.simulate({**job, "cluster": cluster}, seed=seed).ending is Ending.COMPLETE
