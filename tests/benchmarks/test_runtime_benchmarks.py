"""The benchmark of real runs in small and without Ray Tune: it runs, and measures what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.runtime import arena, calibration, evenness, fidelity, trials
from benchmarks.runtime.arena import Bout, Outcome
from benchmarks.runtime.journals import Timeline
from benchmarks.runtime.pace import pace
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.model.ids import NodeId, Slot, TrialId

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
TRIAL = TrialId(0)
BOUT = Bout(by="ours", side="ours", task="trials")


def train(generation: int, slots: int) -> do.Train:
    gang = tuple(Slot(A, number) for number in range(slots))
    return do.Train(trial=TRIAL, generation=generation, gang=gang, after_iteration=0, until_iteration=9)


def row(iteration: int, at_s: float) -> tuple[ev.Row, ...]:
    return (ev.Row(iteration, at_s, {"score": 0.5}),)


RESIZED = Timeline(
    steps=(
        (
            ev.RunStarted(at_s=0.0, policy="random", seed=0, job={}),
            (do.RequestNodes(request=1, count=1),),
        ),
        (ev.NodesGranted(at_s=0.6, request=1, nodes=(A,), billed_s=0.5), ()),
        (ev.NodesReady(at_s=2.0, nodes=(A,)), (train(1, 1),)),
        (ev.GangStarted(at_s=2.5, trial=TRIAL, generation=1), ()),
        (
            ev.Progressed(at_s=3.0, trial=TRIAL, generation=1, rows=row(1, 3.0)),
            (do.Revoke(trial=TRIAL, generation=1),),
        ),
        (
            ev.LeaseEnded(at_s=4.0, trial=TRIAL, generation=1, rows=row(2, 3.9), reason=ev.LeaseEnd.REVOKED),
            (do.Pause(trial=TRIAL, generation=1),),
        ),
        (ev.TrialPaused(at_s=4.25, trial=TRIAL, generation=1), (train(2, 2),)),
        (ev.GangStarted(at_s=4.5, trial=TRIAL, generation=2), ()),
        (ev.Progressed(at_s=5.5, trial=TRIAL, generation=2, rows=row(3, 5.4)), ()),
    )
)


def test_a_resize_is_measured_from_row_to_row_and_from_order_to_start() -> None:
    (resize,) = RESIZED.resizes()
    assert resize.order_s == pytest.approx(1.5)
    assert resize.still_s == pytest.approx(0.6)
    assert resize.gap_s == pytest.approx(1.5)


def test_boots_starts_and_saves_are_read_from_a_journal() -> None:
    read = calibration.read(RESIZED)
    assert read.queue == pytest.approx((0.1,))
    assert read.init == pytest.approx((1.9,))
    assert read.startup == pytest.approx((0.5, 0.25))
    assert read.save == pytest.approx((0.25,))


def test_nodes_that_come_one_by_one_are_one_step_of_the_cluster() -> None:
    steps = (
        (ev.NodesReady(at_s=1.0, nodes=(A,)), ()),
        (ev.TimerFired(at_s=2.0, timer="t"), (do.ReleaseNodes(nodes=(A,)),)),
        (ev.NodesReady(at_s=3.0, nodes=(B,)), ()),
        (ev.NodesReady(at_s=3.5, nodes=(C,)), ()),
        (ev.NodeLost(at_s=4.0, node=B), (do.ReleaseNodes(nodes=(C,)),)),
    )
    assert Timeline(steps=steps).nodes() == "1 0 2 0"


def test_the_pace_is_that_of_the_first_the_middle_and_the_last_trials() -> None:
    ends = [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 11.0, 14.0, 17.0]
    assert pace(ends, 2) == {"first_s": 1.0, "middle_s": 2.0, "last_s": 3.0}


def test_the_peer_is_compared_by_the_best_of_its_settings() -> None:
    slow, fast = (
        Outcome(bout=Bout(by=str(s), side="peer", task="trials"), rounds=({"wall_s": s},)) for s in (3.0, 2.0)
    )
    mine = Outcome(bout=BOUT, rounds=({"wall_s": 1.0},))
    assert arena.best_of([mine, slow, fast], "wall_s") is fast
    assert arena.best_of([mine, slow, fast], "wall_s", most=True) is slow
    assert arena.best_of([mine], "wall_s") is None


def test_an_interpreter_without_ray_tune_is_named_in_the_error(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no ray.tune here >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    with pytest.raises(RuntimeError, match=r"no ray\.tune here"):
        arena.hold([BOUT], cpus=1, rounds=1, python=str(broken))


@pytest.mark.slow
def test_without_ray_tune_ours_runs_alone_and_the_note_says_how_to_install_it() -> None:
    table = trials.measure(trials=(3,), slots=2, repeats=1)
    (only,) = table.rows
    assert only[table.header.index("by")] == arena.OURS
    assert arena.INSTALL in table.note


@pytest.mark.slow
def test_every_row_counts_every_trial_ends_and_every_resize_is_seen() -> None:
    bouts = [
        Bout(
            by="reports",
            side="ours",
            task="reports",
            options={"trials": 2, "slots": 2, "iterations": 500},
        ),
        Bout(by="long", side="ours", task="long", options={"trials": 12, "slots": 2, "part": 3}),
        Bout(by="resizes", side="ours", task="resizes", options={"sizes": [1, 2], "gangs": 4, "slots": 2}),
    ]
    reports, long, resizes = (each.rounds[0] for each in arena.hold(bouts, cpus=2, rounds=1, python=None))
    assert reports["rows"] == 1000
    assert set(long) == {"first_s", "middle_s", "last_s"}
    assert resizes["resizes"] == 3
    assert 0.0 < resizes["still_s"] <= resizes["gap_s"]


@pytest.mark.slow
def test_the_thousand_trials_are_compared_with_those_of_the_peer_by_the_last_hundred() -> None:
    table = evenness.measure(trials=12, part=3, slots=2, repeats=1)
    assert table.header[1:4] == ("first 3", "middle 3", "last 3")
    assert len(table.rows) == 1


@pytest.mark.slow
def test_a_real_run_is_compared_with_a_quote_of_what_was_measured() -> None:
    search = {"algorithm": "sha", "trials": 2, "min_iterations": 2, "max_iterations": 4, "eta": 2}
    case = fidelity.Case(
        name="small", iteration_s=0.2, keys={"search": search, "deadline": 120}, at_once=(1,)
    )
    runs, measured = fidelity.measure(cases=[case], repeats=1).tables
    assert runs.rows[0][:3] == ("small", "1 0", 2)
    assert measured.rows[0][0] == "1"
