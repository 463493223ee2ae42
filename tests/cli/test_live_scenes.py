"""What is seen of a run while it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastune.policies.rubberband import RubberBand
from elastune.views.live.snapshot import Gauge, Snapshot
from elastune.views.live.spectator import View
from tests.cli.live_scenes import SHA, Stage, drawn, scene_at

BOTH = {**SHA, "budget": 3.0}
PBT = {**SHA, "search": {"algorithm": "pbt", "trials": 8, "interval": 3, "max_iterations": 12}}
HYPERBAND = {**SHA, "search": {"algorithm": "hyperband", "max_iterations": 9, "eta": 3}}
E_HYPERBAND = {**BOTH, "search": {"algorithm": "e-hyperband", "min_round": "15s"}}
SEER = {**BOTH, "search": {"algorithm": "seer", "min_round": "15s"}}
SIZES = [(40, 8), (80, 24), (100, 34), (120, 30), (200, 60)]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, SHA)


def test_while_nodes_boot_the_run_is_as_planned_and_the_first_stage_is_next(stage: Stage) -> None:
    snapshot = scene_at(stage, 9.0)
    assert snapshot.doing == "waits for nodes to boot"
    assert snapshot.nodes.booting == len(snapshot.nodes.lines) > 0
    assert snapshot.time.ahead == 0.0
    first = snapshot.upcoming[0]
    assert first.at_s == pytest.approx(15.0)
    assert first.text == f"stage 1, 16 trials for 1 more iteration on {snapshot.nodes.booting} nodes"


def test_stages_have_their_planned_and_their_real_times(stage: Stage) -> None:
    begun = {account.stage: account for account in stage.state.ledger.stages}
    assert not begun
    snapshot = scene_at(stage, 60.0)
    present = [line for line in snapshot.stages if line.is_present]
    assert len(present) == 1
    over = [line for line in snapshot.stages if line.ended_s is not None]
    assert over == list(snapshot.stages[: len(over)])
    assert snapshot.stages[len(over)] is present[0]
    for line in over:
        assert line.ended_s == pytest.approx(line.planned_end_s, rel=0.02)  # nothing here is random
    assert 0.0 < present[0].share < 1.0


def test_a_run_that_keeps_to_its_plan_ends_when_and_costs_what_was_planned(stage: Stage) -> None:
    quote = stage.setup.quote
    assert quote is not None
    begins = [leg.planned_begin_s for leg in scene_at(stage, 1.0).stages]
    for at_s in begins:  # later, a simulated stage is silent: its rows come together
        snapshot = scene_at(stage, at_s + 1.1)
        assert snapshot.time.expected_end == pytest.approx(quote.jct_seconds, abs=3.0)
        assert snapshot.money is not None
        assert snapshot.money.expected_end == pytest.approx(quote.cost, rel=0.05)


def test_the_clock_goes_on_where_no_event_comes(stage: Stage) -> None:
    view = View(stage.opening, stage.clock)
    stage.until(20.0)
    seen_s = view.look(stage.state).now_s
    stage.now_s += 1.5
    assert view.look(stage.state).now_s == pytest.approx(seen_s + 1.5)


def test_nodes_that_go_are_told_before_they_do(stage: Stage) -> None:
    nodes = [line.nodes for line in scene_at(stage, 1.0).stages]
    shrinking = next(n for n in range(1, len(nodes)) if nodes[n] < nodes[n - 1])
    begun_s = scene_at(stage, 1.1).stages[shrinking - 1].planned_begin_s
    snapshot = scene_at(stage, begun_s + 3.0)
    gone = nodes[shrinking - 1] - nodes[shrinking]
    assert f"{gone} node{'s go' if gone > 1 else ' goes'}" in snapshot.upcoming[0].text


@pytest.mark.parametrize(
    ("job", "policy", "faults"),
    [
        (SHA, None, "harsh"),
        (BOTH, "asha", "harsh"),
        (SHA, "hypersched", "mild"),
        (SEER, None, "harsh"),
        (E_HYPERBAND, None, "mild"),
        (HYPERBAND, None, "harsh"),
        (PBT, None, "mild"),
        (BOTH, "random", "mild"),
    ],
)
def test_every_moment_of_every_policy_fits_every_terminal(
    job: dict[str, object], policy: str | None, faults: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, job, policy, faults)
    view = View(stage.opening, stage.clock)
    for number, _ in enumerate(stage.steps()):
        if number % 7:
            continue
        snapshot = view.look(stage.state)
        agrees_with_itself(snapshot)
        width, height = SIZES[number // 7 % len(SIZES)]
        lines = drawn(snapshot, width, height)
        assert len(lines) < height
        assert max(map(len, lines)) <= width
    assert view.look(stage.state).is_over


def agrees_with_itself(snapshot: Snapshot) -> None:
    nodes, trials = snapshot.nodes, snapshot.trials
    assert nodes.up + nodes.booting == len(nodes.lines)
    assert all(0 <= line.busy <= nodes.slots_per_node for line in nodes.lines)
    assert nodes.busy == sum(line.slots for line in trials.lines if line.slots)
    assert trials.training + trials.waiting + trials.over == trials.drawn
    assert all(0.0 <= line.share <= 1.0 for line in snapshot.stages)
    times = [each.at_s for each in snapshot.upcoming if each.at_s is not None]
    assert times == sorted(times)
    assert (snapshot.best is not None) == any(line.is_best for line in trials.lines)


def test_a_node_that_is_lost_is_told_of_and_what_comes_is_by_the_new_plan(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SHA, faults="lost_per_hour=120")
    view = View(stage.opening, stage.clock)
    snapshot = view.look(stage.state)
    while not (notes := [each for each in snapshot.happened if each.is_note and each.topic == "replan"]):
        assert stage.state.ended is None, "no node was lost"
        stage.until(stage.now_s + 1.5)
        snapshot = view.look(stage.state)
    policy = stage.core.policy
    assert isinstance(policy, RubberBand)
    bracket = policy.brackets[0]
    to_come = [line.nodes for line in snapshot.stages[bracket.first_stage :]]
    assert to_come == [planned.nodes_held for planned in bracket.plan.stages]
    left_s = bracket.quote.jct_seconds
    assert snapshot.time.expected_end == pytest.approx(notes[-1].at_s + left_s, abs=5.0)


@pytest.mark.parametrize(
    ("gauge", "full", "ahead", "danger"),
    [
        (Gauge(now=5.0), 5.0, None, False),
        (Gauge(now=5.0, limit=20.0, planned_now=4.0, planned_end=10.0, expected_end=11.0), 20.0, 1.0, False),
        (Gauge(now=5.0, limit=9.0, planned_now=4.0, planned_end=8.0, expected_end=10.0), 9.0, 1.0, True),
        (Gauge(now=5.0, planned_now=4.9, planned_end=10.0), 10.0, 0.0, False),
        (Gauge(now=5.0, planned_now=4.0, planned_end=10.0, grain=2.0), 10.0, 0.0, False),
        (Gauge(now=30.0, limit=20.0), 30.0, None, True),
    ],
)
def test_a_gauge_says_what_is_used_more_than_planned_unless_it_says_nothing(
    gauge: Gauge, full: float, ahead: float | None, danger: bool
) -> None:
    assert gauge.full == full
    assert gauge.ahead == ahead
    assert gauge.is_in_danger is danger
