"""The benchmarks of hopping on real processes, in small: they run, and measure what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hopper import accuracy, faults, learning, prediction, remote, throughput, unequal
from benchmarks.hopper.costs import Sizes
from benchmarks.hopper.journals import Course
from benchmarks.hopper.law import RESNET, Law
from benchmarks.hopper.systems import System
from benchmarks.hopper.workloads import sleeping
from benchmarks.reporting import Table
from benchmarks.runtime.journals import Timeline
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.model.ids import NodeId, Slot, TrialId

A, B = NodeId("a"), NodeId("b")
TRIAL = TrialId(0)
TB = 1e12


def train(generation: int, node: NodeId, partition: int, done: int) -> do.Train:
    return do.Train(
        trial=TRIAL,
        generation=generation,
        gang=(Slot(node, 0),),
        after_iteration=0,
        until_iteration=1,
        visit=do.Visit(partition, done, 2),
    )


def ended(at_s: float, generation: int, *, hopped: bool = False, last: bool = False) -> ev.VisitEnded:
    rows = (ev.Row(1, at_s, {"score": 0.5}),) if last else ()
    return ev.VisitEnded(
        at_s=at_s,
        trial=TRIAL,
        generation=generation,
        rows=rows,
        seconds=1.0,
        model_bytes=100,
        hopped=hopped,
    )


# On a, then b is lost with the model that had been on both; the second visit is cut short once, too.
LOST = Course.of(
    Timeline(
        steps=(
            (ev.NodesGranted(at_s=1.5, request=1, nodes=(A, B), billed_s=0.5), ()),
            (ev.NodesReady(at_s=3.0, nodes=(A, B)), (train(1, A, 0, 0),)),
            (ended(4.25, 1), (train(2, B, 1, 1),)),
            (ev.NodeLost(at_s=5.0, node=B), (train(3, A, 0, 0),)),
            (ended(6.5, 3), (train(4, A, 1, 1),)),
            (ended(8.0, 4, hopped=True, last=True), ()),
        )
    )
)


def test_visits_are_told_apart_by_whether_they_ended_and_were_needed() -> None:
    assert (len(LOST.stays), LOST.in_vain, LOST.again) == (3, 1, 1)
    assert LOST.is_complete(2)
    assert not LOST.is_complete(3)


def test_time_counts_from_the_first_order_to_the_last_row() -> None:
    assert LOST.seconds == 5.0
    assert LOST.epochs_s == [5.0]
    assert LOST.overheads_s(iteration=1) == [0.25, 0.5, 0.5]
    assert LOST.boots_s == {A: 2.0, B: 2.0}


def test_only_models_from_another_worker_have_moved() -> None:
    assert (LOST.hops, LOST.moved_bytes) == (1, 100)


def test_the_formulas_give_the_example_of_table_2() -> None:
    """Cerebro: k = 20, |S| = 20, p = 10, m = 1 GB, <D> = 1 TB and |D|/b = 100,000 on each of ten workers."""
    sizes = Sizes(
        epochs=20, model_bytes=1e9, workers=10, trials=20, data_bytes=TB, rows=32 * 100_000, batch=32 * 10
    )
    assert sizes.hopping() == pytest.approx(4 * TB, rel=0.01)
    assert sizes.full_replication() == pytest.approx(10 * TB, rel=0.01)
    assert sizes.data_parallel() == pytest.approx(40_000 * TB)
    assert sizes.remote_reads() == pytest.approx(400 * TB, rel=0.01)
    assert sizes.model_averaging() == pytest.approx(8 * TB)
    assert sizes.parameter_server() == pytest.approx(80_000 * TB)


def test_the_law_has_no_communication_on_one_worker_and_much_with_small_batches() -> None:
    assert RESNET.seconds(200, 1) == pytest.approx(1.0)
    large = Law(row_s=RESNET.row_s, reduce_s=RESNET.reduce_s, batch=16 * RESNET.batch)
    assert 1.0 < RESNET.speedup(8) < large.speedup(8) < 8.0
    assert RESNET.shrunk(10.0).speedup(8) == pytest.approx(RESNET.speedup(8))


def test_all_systems_train_the_same_configurations(tmp_path: Path) -> None:
    load = sleeping(tmp_path, RESNET, unit_s=0.1, workers=2, epochs=3, trials=4)
    jobs = [load.job(system, "") for system in System]
    assert len({str(job["space"]) for job in jobs}) == 1
    assert [job.get("execution") for job in jobs] == ["hopper", None, None, None]


def column(table: Table, name: str) -> list[object]:
    return [row[table.header.index(name)] for row in table.rows]


@pytest.mark.slow
def test_throughput_in_small() -> None:
    scope = throughput.Scope(
        copies=1, partitions=(2,), training_epochs=1, unit_s=0.05, sleeping_workers=2, sleeping_epochs=1
    )
    times, moved = throughput.measure(scope).tables
    assert column(times, "by") == [system.value for system in System] * 2
    data = column(times, "data per worker, MB")
    assert data[1] == pytest.approx(2 * data[0], rel=0.01)  # type: ignore[operator]
    assert data[2] == data[3] == data[0]
    assert len(moved.rows) == len(times.rows)


@pytest.mark.slow
def test_accuracy_in_small() -> None:
    scope = accuracy.Scope(copies=1, partitions=2, epochs=2, seeds=2, configs=((0.1, 0.9, 32),))
    report = accuracy.measure(scope)
    assert len(report.tables[0].rows) == 2
    assert report.figures["accuracy"].axes


@pytest.mark.slow
def test_nothing_is_lost_with_two_of_three_workers() -> None:
    report = faults.measure(faults.Scope(unit_s=0.3, workers=3, epochs=2, trials=4))
    repeated = report.tables[1]
    assert column(repeated, "rows missing") == [0] * 6
    assert column(repeated, "rows changed")[::2] == [0, 0, 0]
    assert set(column(repeated, "every partition in every epoch")) == {"yes"}


@pytest.mark.slow
def test_prediction_in_small() -> None:
    (table,) = prediction.measure(prediction.Scope(unit_s=(0.2,), workers=2, epochs=2, trials=4)).tables
    planned, simulated = column(table, "planned, s"), column(table, "simulated, s")
    assert planned == pytest.approx(simulated)
    assert planned[0] == pytest.approx(0.2 * 4 * 2)


def test_no_schedule_is_shorter_than_the_bound_of_unequal_workers() -> None:
    scope = unequal.Scope(unit_s=1.0, slowness=(1.0, 2.0), cost=(1.0, 1.0, 1.0))
    assert unequal.bound_s(scope, 1) == 6.0  # the slow one has three visits of two seconds
    assert unequal.bound_s(scope, 2) == pytest.approx(4.0)  # six visits of one second, at 1.5 per second
    assert unequal.bound_s(unequal.Scope(slowness=(1.0, 1.0), cost=(1.0,), unit_s=1.0), 2) == 2.0


@pytest.mark.slow
def test_only_task_parallel_training_reads_again_and_again() -> None:
    scope = remote.Scope(
        unit_s=0.1, workers=2, trials=2, epochs=2, scales=(1.0,), replicas=(1, 2), row_bytes=1_000
    )
    (table,) = remote.measure(scope).tables
    read, size = column(table, "data read, MB"), 2.56
    assert read[0] == pytest.approx(size, rel=0.2)  # each partition once, and the headers
    assert read[1] == pytest.approx(4 * size, rel=0.01)  # two trials of two epochs
    assert read[2:] == [0, pytest.approx(2 * size, rel=0.01), 0, 0]


@pytest.mark.slow
def test_unequal_workers_in_small() -> None:
    scope = unequal.Scope(unit_s=0.1, slowness=(1.0, 2.0), cost=(0.5, 1.0), epochs=2, replicas=(1, 2))
    (table,) = unequal.measure(scope).tables
    assert len(table.rows) == 3
    assert all(float(ratio) >= 1.0 for ratio in column(table, "by the bound")[:2])  # type: ignore[arg-type]


@pytest.mark.slow
def test_every_system_learns_on_the_network() -> None:
    scope = learning.Scope(copies=2, epochs=2, batches=(64,), rates=(0.03,))
    report = learning.measure(scope)
    (table,) = report.tables
    assert column(table, "by") == [arm.label for arm in learning.ARMS]
    assert min(column(table, "after 2")) > 70.0  # type: ignore[type-var,operator]
    assert report.figures["learning"].axes
