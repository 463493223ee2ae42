"""A run that ends because a model is good enough."""

from __future__ import annotations

from dataclasses import replace

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.terms import RunTerms
from elastune.core.wishes import Wish
from elastune.model.ids import NodeId, TrialId
from elastune.model.metric import Inequality, Mode, Target
from tests.core.harness import Harness, make_terms, notes, only, open_stage, released

T0, T1 = TrialId(0), TrialId(1)
FAR = 100
ENOUGH = Target(metric="score", comparison=Inequality.AT_LEAST, value=0.9)


def terms(**changes: object) -> RunTerms:
    return replace(make_terms(), **{"target": ENOUGH, **changes})  # type: ignore[arg-type]


def running(run_terms: RunTerms, *, trials: int = 1) -> Harness:
    harness = open_stage(run_terms, trials=trials)
    harness.wish(*(Wish(TrialId(number), 1, FAR) for number in range(trials)), nodes=1)
    for number in range(trials):
        harness.started(number)
    return harness


def test_the_run_winds_up_when_a_model_that_is_good_enough_is_durable() -> None:
    harness = running(terms(), trials=2)
    assert harness.at(10.0).progressed(0, 0.5, 0.95) == []  # not saved yet
    commands = harness.at(12.0).progressed(0, saved=(2,))
    assert notes(commands) == [("target", "score >= 0.9: trial 0 has 0.95 after iteration 2")]
    assert only(commands, do.Revoke) == [
        do.Revoke(trial=T0, generation=1),
        do.Revoke(trial=T1, generation=1),
    ]
    assert harness.state.shutdown is Ending.TARGET
    for number in (0, 1):
        harness.at(20.0).lease_ended(number, 0.1, reason=ev.LeaseEnd.REVOKED)
    harness.at(21.0).paused(0)
    last = harness.paused(1)
    assert released(last) == ["n0"]
    assert last[-1] == do.EndRun(reason=Ending.TARGET, best=do.Best(trial=T0, iteration=2, metric=0.95))
    assert harness.state.ended is Ending.TARGET


def test_a_pause_makes_a_model_durable_too() -> None:
    harness = running(terms())
    harness.at(10.0).lease_ended(0, 0.95)
    assert harness.state.shutdown is None
    harness.wish(nodes=1)
    (note, release, end) = harness.at(11.0).paused(0)
    assert isinstance(note, do.Note)
    assert release == do.ReleaseNodes(nodes=(NodeId("n0"),))
    assert end == do.EndRun(reason=Ending.TARGET, best=do.Best(trial=T0, iteration=1, metric=0.95))


def test_a_model_that_is_lost_before_it_was_saved_is_not_good_enough() -> None:
    harness = running(terms())
    harness.at(10.0).progressed(0, 0.95)
    harness.at(11.0).lost("n0")
    assert harness.state.shutdown is None


def test_the_policy_is_not_asked_once_it_is_enough() -> None:
    harness = running(terms())
    heard = len(harness.policy.heard)
    harness.at(10.0).progressed(0, 0.95, saved=(1,))
    harness.at(20.0).lease_ended(0, 0.96, reason=ev.LeaseEnd.REVOKED)
    assert len(harness.policy.heard) == heard


def test_the_first_reason_counts() -> None:
    harness = running(terms())
    harness.tell(ev.StopAsked(at_s=0.0, reason="enough"))
    harness.lease_ended(0, 0.95, reason=ev.LeaseEnd.REVOKED)
    harness.paused(0)
    assert harness.state.ended is Ending.STOPPED


def test_what_is_good_is_small_where_the_mode_is_min() -> None:
    few = Target(metric="score", comparison=Inequality.BELOW, value=0.1)
    harness = running(terms(mode=Mode.MIN, target=few))
    harness.at(10.0).progressed(0, 0.5, 0.1, saved=(1, 2))
    assert harness.state.shutdown is None
    harness.at(20.0).progressed(0, 0.09, saved=(3,))
    assert harness.state.shutdown is Ending.TARGET


def test_without_a_target_nothing_is_ever_good_enough() -> None:
    harness = running(terms(target=None))
    assert harness.at(10.0).progressed(0, 1e9, saved=(1,)) == []
