"""Requests of people and programs: what is granted holds at once, what is refused changes nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.trials import Activity, Phase
from elastune.model.ids import TrialId
from elastune.setup.run_setup import prepare
from tests.fire.portrait import portrait
from tests.runs.checked_run import SAMPLES, CheckedRun, checked_run, job_of

LIMITS = {"deadline": 100.0, "budget": 5.0, "cluster__minimum_charge": 0.0, "search__max_iterations": 50}


def running(policy: str = "asha", **changes: object) -> CheckedRun:
    """Until a model is saved."""
    setup = prepare(job_of(**{"search__algorithm": policy, **LIMITS, **changes}), samples=SAMPLES)
    run = CheckedRun(setup)
    run.start()
    while run.state.best is None:
        run.step()
    return run


def extended(run: CheckedRun, **limits: float | None) -> ev.RunExtended:
    return ev.RunExtended(at_s=run.body.now_s, request_id="r1", **limits)  # type: ignore[arg-type]


def finish(run: CheckedRun) -> CheckedRun:
    while run.step():
        pass
    run.witness.check_over()
    run.writer.close()
    return run


def test_new_limits_move_the_last_call_and_all_leases() -> None:
    run = running()
    commands = run.driver(extended(run, deadline_s=300.0))
    leases = [command for command in commands if isinstance(command, do.Train)]
    training = {n for n in run.state.held if run.state.trials[n].activity is Activity.TRAINING}
    assert {lease.trial for lease in leases} == training != set()
    assert {lease.until_s for lease in leases} == {299.0}  # a save before
    timers = {command.timer: command.at_s for command in commands if isinstance(command, do.SetTimer)}
    assert timers["guard:deadline-end"] == 300.0
    for command in commands:
        run.body.carry_out(command)
    assert 200.0 < finish(run).seconds <= 300.0


def test_a_larger_max_nodes_is_requested_and_a_smaller_one_kept() -> None:
    run = running(cluster__max_nodes=1, budget=None, deadline=200.0)
    assert run.grant(extended(run, max_nodes=4))
    assert run.state.nodes_committed == 4
    assert "max_nodes 2 is too small: the run has 4 nodes now" in (
        run.core.refusal(extended(run, max_nodes=2)) or ""
    )
    finish(run)
    assert len([e for e, _ in run.told if isinstance(e, ev.NodesGranted)]) >= 2


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"deadline_s": 1.0}, "a deadline of 1.0 s is too early"),
        ({"budget_usd": 0.01}, r"a budget of \$0.0100 is too small"),
        ({"max_nodes": 0}, "max_nodes 0 is too small"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused_and_change_nothing(
    limits: dict[str, float], why: str
) -> None:
    run = running()
    before = portrait(vars(run.core))
    refused = run.core.refusal(extended(run, **limits))
    assert refused is not None
    assert re.search(why, refused)
    assert portrait(vars(run.core)) == before


def test_a_fixed_cluster_has_no_other_max_nodes() -> None:
    run = running(cluster__max_nodes=None, cluster__nodes=2)
    assert "fixed number of nodes" in (run.core.refusal(extended(run, max_nodes=4)) or "")


def test_a_limit_that_was_given_up_holds_again_when_it_is_extended() -> None:
    setup = prepare(job_of(**{**LIMITS, "search__algorithm": "asha"}, may_exceed="deadline"), samples=SAMPLES)
    run = CheckedRun(setup)
    run.start()
    while not run.state.conceded:
        run.step()
    assert run.state.limits.deadline_s is None
    assert run.grant(extended(run, deadline_s=400.0))
    assert not run.state.conceded
    assert finish(run).state.terms.limits.deadline_s == 400.0


def test_a_run_that_is_shutting_down_refuses_until_it_has_ended() -> None:
    run = running()
    assert run.grant(ev.StopAsked(at_s=run.body.now_s, reason="enough", request_id="stop"))
    assert run.state.ended is None
    assert "shutting down (stopped)" in (run.core.refusal(extended(run, deadline_s=900.0)) or "")
    finish(run)
    assert run.core.refusal(replace(extended(run, deadline_s=900.0), at_s=run.body.now_s)) is None
    assert "has ended" in (run.core.refusal(ev.RestAsked(at_s=run.body.now_s, reason="r")) or "")


def test_a_run_that_was_stopped_goes_on_without_new_limits() -> None:
    run = running()
    cut_s = run.body.now_s
    assert run.grant(ev.StopAsked(at_s=cut_s, reason="by mistake", request_id="stop"))
    finish(run)
    assert run.reopen(extended(run))
    run.witness.check_over()
    assert run.state.ended in {Ending.DEADLINE, Ending.BUDGET}
    assert [entry.text for entry in _notes(run, "reopened")] == [
        "the run had ended (stopped) and goes on from its checkpoints"
    ]


def test_an_ended_run_says_which_limit_has_to_be_extended_too() -> None:
    run = checked_run(job_of(**{**LIMITS, "search__algorithm": "asha"}))
    assert run.state.ended is Ending.DEADLINE
    refused = run.core.refusal(extended(run, budget_usd=9.0))
    assert refused is not None
    assert refused.startswith("the deadline of 1m40s is over")
    assert refused.endswith("extend it, too")


def test_a_run_that_reached_its_target_or_has_no_model_does_not_go_on() -> None:
    reached = checked_run(job_of(**{**LIMITS, "search__algorithm": "asha"}, stop_when="score > 0.01"))
    assert "reached its target" in (reached.core.refusal(extended(reached, deadline_s=900.0)) or "")


def test_trials_that_were_in_the_race_go_on_and_those_that_were_out_do_not() -> None:
    run = checked_run(
        job_of(**{**LIMITS, "deadline": 150.0, "search__algorithm": "hyperband", "search__trials": None}),
        policy="hyperband",
    )
    cut = set(run.state.changes.cut)
    out = {number for number, trial in run.state.trials.items() if trial.phase.is_over} - cut
    assert cut
    assert out
    told = len(run.told)
    assert run.reopen(extended(run, deadline_s=600.0, budget_usd=30.0))
    trained = {e.trial for e, _ in run.told[told:] if isinstance(e, ev.Progressed) and e.rows}
    assert trained & cut
    assert not trained & out


def test_a_stopped_trial_is_named_in_a_refusal() -> None:
    run = running()
    trial = next(iter(run.state.held))
    ask = ev.TrialStopAsked(at_s=run.body.now_s, request_id="t", trial=trial, reason="it is hopeless")
    assert run.grant(ask)
    assert trial not in run.state.held
    assert run.state.trials[trial].phase is Phase.STOPPED
    assert run.core.refusal(ask) == f"trial {trial} is over already (stopped)"
    unknown = replace(ask, trial=TrialId(99))
    assert (run.core.refusal(unknown) or "").startswith("there is no trial 99; there are 0 to ")
    assert finish(run).notes("stop") == [f"trial {trial}: it is hopeless"]


def test_a_configuration_is_the_next_new_trial_also_if_the_driver_dies_before_it_is_drawn() -> None:
    run = running(search__trials=30)
    config = ev.ConfigAdded(at_s=run.body.now_s, request_id="c", config={"x": 0.875})
    assert run.grant(config, killed=True)
    first = len(run.state.trials) + len(run.state.sampling)
    assert "c" in run.state.changes.request_ids
    finish(run)
    drawn = {number: trial.config["x"] for number, trial in run.state.trials.items()}
    assert [number for number, x in drawn.items() if x == 0.875] == [first]


def test_a_grid_still_gives_each_of_its_own_configurations_once() -> None:
    choices = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    run = running(
        search__trials=7, space={"x": {"choice": choices}}, search__sampler="grid", deadline=None, budget=None
    )
    assert run.grant(ev.ConfigAdded(at_s=run.body.now_s, request_id="c", config={"x": 0.1}))
    finish(run)
    drawn = sorted(float(str(trial.config["x"])) for trial in run.state.trials.values())
    assert drawn == sorted([*choices, 0.1])


def _notes(run: CheckedRun, topic: str) -> list[do.Note]:
    told = (command for _, commands in run.told for command in commands)
    return [command for command in told if isinstance(command, do.Note) and command.topic == topic]
