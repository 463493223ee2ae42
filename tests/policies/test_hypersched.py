"""HyperSched: what each of its ideas does, and that it does nothing when switched off."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.job.job import Job
from elastune.job.search_options import HyperSchedSearch
from elastune.model.ids import TrialId
from elastune.policies.gang_sizes import Timings
from elastune.policies.hypersched import HyperSched
from elastune.policies.rungs import SeenRung
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import CheckedRun, checked_run, job_of, run_quickly

BASE: dict[str, object] = {
    "deadline": 300.0,
    "profile": {"iteration": 1.0, "speedup": {"1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}},
    "cluster": {"slots_per_node": 4, "nodes": 2, "price_per_hour": 36.0},
}


def job(changes: Mapping[str, object] | None = None, **search: object) -> Job:
    chosen = {"algorithm": "hypersched", "min_iterations": 4, "max_iterations": 400, **search}
    return job_of(**{**BASE, "search": chosen, **(changes or {})})


def sizes(run: CheckedRun) -> set[int]:
    return {len(c.gang) for _, c in run.commands if isinstance(c, do.Train)}


def last_entry_s(run: CheckedRun) -> float:
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
    with_it, without = (
        checked_run(job({"deadline": 40.0}, speculative=flag), seed=1) for flag in (True, False)
    )
    most = [max(t.iteration for t in run.state.trials.values()) for run in (with_it, without)]
    assert most[0] > most[1]


def test_trials_stop_entering_when_they_can_no_longer_matter() -> None:
    by_deadline, always = (
        checked_run(job(entrance=how, max_iterations=10_000), seed=1) for how in ("deadline", "always")
    )
    assert last_entry_s(by_deadline) < last_entry_s(always)
    assert len(by_deadline.state.trials) < len(always.state.trials)


def test_a_share_of_the_time_for_entering() -> None:
    run = checked_run(job(entrance=0.2), seed=1)
    assert last_entry_s(run) <= 0.2 * 300.0


def test_free_slots_go_to_those_that_train() -> None:
    moved, fixed = (checked_run(job(reallocate=flag), seed=1) for flag in (True, False))
    assert max(sizes(moved)) == 8
    assert sizes(fixed) == {1}
    assert moved.state.best is not None
    assert fixed.state.best is not None
    assert moved.state.best.metric > fixed.state.best.metric


def test_nobody_is_resized_for_a_loss() -> None:
    """Twice as fast for the time left is not worth a start-up that takes most of it."""
    slow_start = {**BASE["profile"], "startup": 200.0}  # type: ignore[dict-item]
    run = checked_run(job({"profile": slow_start}), seed=1)
    assert sizes(run) == {1}


def test_without_scaling_nobody_is_resized() -> None:
    run = checked_run(job({"profile": {"iteration": 1.0}}), seed=1)
    assert sizes(run) == {1}


def test_blindfolded_it_believes_in_linear_scaling_without_overhead() -> None:
    run = checked_run(job({"profile": {"iteration": 1.0, "startup": 5.0}}, profiled=False), seed=1)
    assert max(sizes(run)) > 1


@pytest.mark.parametrize("cooldown", [0, 40])
def test_between_two_resizes_a_trial_trains_for_its_cooldown(cooldown: int) -> None:
    run = checked_run(job(cooldown=cooldown, letter=True), seed=1)
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
    run = checked_run(job(), seed=3)
    seen: dict[int, int] = {}
    for event, _ in run.told:
        if isinstance(event, ev.Progressed):
            for row in event.rows:
                assert row.iteration > seen.get(event.trial, 0)
                seen[event.trial] = row.iteration


def test_a_number_of_trials_ends_it_before_the_deadline() -> None:
    run = checked_run(job(trials=3, max_iterations=20), seed=1)
    assert run.state.ended is Ending.COMPLETE
    assert len(run.state.trials) == 3
    assert run.seconds < 300.0


def test_a_budget_without_a_deadline_is_time_too() -> None:
    run = checked_run(job({"deadline": None, "budget": 3.0}), seed=1)
    assert run.usd <= 3.0
    assert last_entry_s(run) < run.seconds


def test_the_entrance_can_be_a_number_or_a_word() -> None:
    assert HyperSched(HyperSchedSearch.model_validate({"entrance": 0.5})).options.entrance == 0.5
    assert HyperSched(HyperSchedSearch()).options.entrance == "deadline"


def test_the_letter_is_one_option_and_those_that_are_given_stand() -> None:
    mended, letter = (HyperSched(HyperSchedSearch.model_validate({"letter": flag})) for flag in (False, True))
    assert (mended.cooldown, mended.resumes) == ("cost", True)
    assert (letter.cooldown, letter.resumes) == (2, False)
    options = {"letter": True, "cooldown": 0, "runners_up": True}
    given = HyperSched(HyperSchedSearch.model_validate(options))
    assert (given.cooldown, given.resumes) == (0, True)


@pytest.mark.parametrize("cooldown", ["soon", -1, 1.5, True])
def test_a_cooldown_is_by_cost_or_in_iterations(cooldown: object) -> None:
    with pytest.raises(ValueError, match="cost, or the iterations between two resizes, such as 2"):
        HyperSchedSearch.model_validate({"cooldown": cooldown})


def test_it_ends_if_the_last_trial_is_stopped_before_it_has_begun() -> None:
    """A trial was promoted and, by the result of another, paused again while its gang started."""
    cluster = {"nodes": 1, "slots_per_node": 2, "price_per_hour": 1}
    search = {"algorithm": "hypersched", "trials": 27, "max_iterations": 27}
    job = {"trainable": "synthetic:hypersched", "profile": {"iteration": "300ms"}, "search": search}
    setup = prepare(Job.from_dict({**job, "cluster": cluster}))
    for seed in range(4):
        assert run_quickly(setup, seed=seed).ended is Ending.COMPLETE


# What is measured in the run.


def recorded(folder: Path, believed_s: float) -> Job:
    """Forty configurations whose iterations took 1 s each; the profile says `believed_s`."""
    path = folder / "curves.npz"
    rng = np.random.default_rng(0)
    falls = np.exp(-0.2 * rng.random((40, 1)) * np.arange(1, 65))
    losses = rng.random((40, 1)) * (1 - falls) + falls
    np.savez(path, score=1.0 - losses, seconds=np.ones(losses.shape), hp=rng.random((40, 2)))
    search = {"algorithm": "hypersched", "max_iterations": 64, "sampler": {"kind": "table", "replace": True}}
    return Job.from_dict(
        {
            **BASE,
            "trainable": {"curves": str(path)},
            "metric": "score",
            "mode": "max",
            "deadline": 60.0,
            "profile": {"iteration": believed_s, "speedup": {"2": 2.0, "4": 4.0, "8": 8.0}},
            "search": search,
        }
    )


def test_a_wrong_profile_is_corrected_by_what_the_run_measures(tmp_path: Path) -> None:
    right, wrong = (checked_run(recorded(tmp_path, believed_s), seed=1) for believed_s in (1.0, 10.0))
    for run in (right, wrong):
        policy = run.core.policy
        assert isinstance(policy, HyperSched)
        assert policy.timings.iteration_s(1) == pytest.approx(1.0, rel=0.1)
    # With the profile's T_a, 96 entered instead of 108.
    assert len(wrong.state.trials) >= 0.95 * len(right.state.trials)


def test_a_resize_costs_what_it_took_in_this_run() -> None:
    timings = Timings(profiled=True, scales=True)
    state = checked_run(job(trials=1, max_iterations=4), seed=1).state
    timings.update(state)
    believed_s = timings.overhead_s
    for _ in range(20):
        state.observed_speed.startup.add(8.0)
        state.observed_speed.save.add(2.0)
    timings.update(state)
    assert believed_s < 1.0
    assert timings.overhead_s > 8.0


# Runners-up and the end of the time.


def resumed_after_the_first_is_trained(run: CheckedRun, most: int) -> int:
    """How many trials that had begun before train on, after one had trained `most` iterations."""
    trained_s = min(
        event.at_s
        for event, _ in run.told
        if isinstance(event, ev.Progressed) and event.rows and event.rows[-1].iteration == most
    )
    trains = [c for at_s, c in run.commands if isinstance(c, do.Train) and at_s >= trained_s]
    new = {c.trial for c in trains if c.after_iteration == 0}
    return len({c.trial for c in trains} - new)


def test_runners_up_go_on_when_the_leader_is_trained_and_newcomers_do_not_flood() -> None:
    changes = {"deadline": 60.0}
    letter, mended = (
        checked_run(job(changes, max_iterations=128, min_iterations=1, letter=flag), seed=2)
        for flag in (True, False)
    )
    # 128 iterations, two rungs down: 8 of one second each.
    assert last_entry_s(letter) > 60.0 - 8.0
    assert last_entry_s(mended) < 60.0 - 8.0
    assert resumed_after_the_first_is_trained(mended, 128) > resumed_after_the_first_is_trained(letter, 128)


def busy(run: CheckedRun) -> float:
    """The share of the slots' time in which they trained."""
    return sum(node.use.training_s for node in run.state.ledger.nodes.values()) / (8 * run.seconds)


def test_slots_that_the_race_cannot_use_are_not_idle() -> None:
    """Beyond two slots a gang is not faster."""
    changes = {"profile": {"iteration": 1.0, "speedup": {"2": 2.0}}, "deadline": 100.0}
    letter, mended = (
        checked_run(job(changes, max_iterations=400, min_iterations=1, letter=flag), seed=1)
        for flag in (True, False)
    )
    assert busy(letter) < 0.8
    assert busy(mended) > 0.95


def resizes_s(run: CheckedRun) -> list[float]:
    """The seconds between the starts of two gangs of the same trial, where the second is larger."""
    found, last = [], dict[int, tuple[float, int]]()
    for at_s, command in run.commands:
        if isinstance(command, do.Train):
            before_s, slots = last.get(command.trial, (at_s, len(command.gang)))
            if len(command.gang) > slots:
                found.append(at_s - before_s)
            if len(command.gang) != slots or command.trial not in last:
                last[command.trial] = at_s, len(command.gang)
    return found


def test_a_gang_is_resized_at_once_if_that_costs_nothing_and_else_when_it_has_paid() -> None:
    free, dear = (
        checked_run(job({"profile": {**BASE["profile"], "startup": startup}}, runners_up=False), seed=1)  # type: ignore[dict-item]
        for startup in (0.0, 6.0)
    )
    assert min(resizes_s(free)) < 6.0
    assert resizes_s(dear)
    assert min(resizes_s(dear)) >= 12.0
