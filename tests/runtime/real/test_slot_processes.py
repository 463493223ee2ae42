"""The slot processes of a node: orders, news, and everything that users' code can do to them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from elastune.checkpoints.encoding import decode
from elastune.runtime.ray.messages import (
    Broken,
    Dissolve,
    Extend,
    Flush,
    Flushed,
    GangBegan,
    GangId,
    GangTerms,
    Halt,
    Join,
    Keep,
    Kept,
    Listening,
    SlotReady,
    SlotUnfit,
    Trained,
)
from elastune.training.devices import LOGICAL_GPUS
from tests.runtime.real.slot_processes import Watched, crew_of, form
from tests.waiting import wait_until

LEASE = GangTerms(until_iteration=9, until=None, keep_above=None)


def rows_until(processes: Watched, reason: str) -> list[int]:
    """Iterations that are told until the gang waits for that reason."""
    rows: list[int] = []
    while True:
        news = processes.wait_for(Trained)
        rows += [iteration for iteration, _, _ in news.rows]
        if news.reason is not None:
            assert news.reason == reason
            return rows


def is_alive(pid: int) -> bool:
    """One that has ended and waits to be noticed by its parent does not count."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_trial_trains_waits_goes_on_and_is_kept(tmp_path: Path) -> None:
    with crew_of("count", tmp_path, logs=True) as processes:
        gang = GangId(0, 1)
        processes.processes.order(0, form(until=3))
        processes.wait_for(GangBegan)
        assert rows_until(processes, "reached") == [1, 2, 3]
        processes.processes.order(0, Extend(gang=gang, terms=LEASE))
        assert rows_until(processes, "reached") == [4, 5, 6, 7, 8, 9]
        processes.processes.order(0, Keep(gang=gang))
        processes.wait_for(Kept)
        assert decode((tmp_path / "trial-00000/iteration-000009.ckpt").read_bytes()) == {"done": 9}
        processes.processes.order(0, form(generation=2, after=9, until=11))
        assert rows_until(processes, "reached") == [10, 11]


# Twice is slow: a gang of two imports torch, and what a gang of one does not show is in `test_staying`.
@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_gang_that_stays_saves_and_goes_on_without_a_set_up(tmp_path: Path, size: int) -> None:
    """Also a second time; then it is paused like any other, and the processes are the same."""
    gang, preload = GangId(0, 1), ("torch",) if size > 1 else ()
    with crew_of("signs", tmp_path, slots=size, preload=preload) as processes:
        before = processes.processes.pids
        for rank in range(size):
            processes.processes.order(rank, form(rank=rank, size=size, until=2))
        if size > 1:
            meeting = processes.wait_for(Listening).meeting
            processes.processes.order(1, Join(gang=gang, meeting=meeting))
        assert rows_until(processes, "reached") == [1, 2]
        for done in (2, 4):
            processes.processes.order(0, Keep(gang=gang, stay=True))
            assert processes.wait_for(Kept).stays
            path = tmp_path / f"trial-00000/iteration-{done:06d}.ckpt"
            assert decode(path.read_bytes()) == {"done": done}
            terms = GangTerms(until_iteration=done + 2, until=None, keep_above=None)
            processes.processes.order(0, Extend(gang=gang, terms=terms))
            since: list[float] = []
            while True:
                news = processes.wait_for(Trained)
                since += [metrics["since"] for _, _, metrics in news.rows]
                if news.reason is not None:
                    break
            assert since == [done + 1, done + 2]
        processes.processes.order(0, Keep(gang=gang))
        assert not processes.wait_for(Kept).stays
        assert processes.processes.pids == before


def test_a_gang_that_stays_is_dissolved_at_once(tmp_path: Path) -> None:
    with crew_of("count", tmp_path) as processes:
        before = processes.processes.pids
        processes.processes.order(0, form(until=1))
        assert rows_until(processes, "reached") == [1]
        processes.processes.order(0, Keep(gang=GangId(0, 1), stay=True))
        processes.wait_for(Kept)
        processes.processes.order(0, Dissolve(gang=GangId(0, 1), grace_s=5.0))
        processes.processes.order(0, form(1, until=2))
        assert rows_until(processes, "reached") == [1, 2]
        assert processes.processes.pids == before


def test_the_end_of_every_lease_is_told(tmp_path: Path) -> None:
    """Also of one that is taken back before the gang has noticed it."""
    with crew_of("count", tmp_path) as processes:
        processes.processes.order(0, form(until=1))
        assert rows_until(processes, "reached") == [1]
        for _ in range(20):
            processes.processes.order(0, Extend(gang=GangId(0, 1), terms=LEASE))
            processes.processes.order(0, Halt(gang=GangId(0, 1)))
            news = processes.wait_for(Trained, lambda told: told.reason is not None)
            assert news.reason in {"revoked", "reached"}


def test_the_end_of_a_trainable_is_told(tmp_path: Path) -> None:
    with crew_of("finite", tmp_path) as processes:
        processes.processes.order(0, form(until=9, length=2))
        assert rows_until(processes, "returned") == [1, 2]


def test_a_halt_acts_after_the_present_iteration(tmp_path: Path) -> None:
    with crew_of("count", tmp_path) as processes:
        processes.processes.order(0, form(until=10_000, sleep=0.05))
        processes.wait_for(Trained)
        processes.processes.order(0, Halt(gang=GangId(0, 1)))
        rows_until(processes, "revoked")


def test_no_iteration_begins_that_would_end_too_late(tmp_path: Path) -> None:
    with crew_of("count", tmp_path) as processes:
        processes.processes.order(0, form(until=10_000, until_s=time.monotonic() + 0.05, sleep=5.0))
        assert rows_until(processes, "time") == []


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", "ValueError: the learning rate is a lie"),
        ("exit", "SystemExit: 3"),
        ("hard-exit", "ended by itself with exit code 7"),
        ("segfault", "crashed with SIGSEGV"),
    ],
)
def test_a_trial_that_breaks_its_process_breaks_nothing_else(tmp_path: Path, how: str, told: str) -> None:
    with crew_of("misbehave", tmp_path, slots=2) as processes:
        processes.processes.order(0, form(0, until=9, how=how))
        broken = processes.wait_for(Broken)
        assert told in broken.error
        assert broken.fault
        assert broken.gang == GangId(0, 1)
        processes.wait_for(SlotReady)
        processes.processes.order(0, form(1, until=2, how="nothing"))
        assert rows_until(processes, "reached") == [1, 2]


def test_a_worker_that_is_killed_is_not_the_fault_of_its_trial(tmp_path: Path) -> None:
    with crew_of("count", tmp_path) as processes:
        processes.processes.order(0, form(until=10_000, sleep=0.05))
        processes.wait_for(Trained)
        _, worker = processes.processes.pids
        os.kill(worker, signal.SIGKILL)
        broken = processes.wait_for(Broken)
        assert not broken.fault
        assert "SIGKILL" in broken.error
        assert processes.wait_for(SlotReady).pid != worker


def test_a_gang_in_the_middle_of_an_iteration_is_dissolved_at_once(tmp_path: Path) -> None:
    with crew_of("misbehave", tmp_path) as processes:
        hangs = tmp_path / "hangs"
        processes.processes.order(0, form(until=9, how="hang", hangs=str(hangs)))
        processes.wait_for(Trained, lambda news: any(iteration == 2 for iteration, _, _ in news.rows))
        wait_until(hangs.exists)
        processes.processes.order(0, Dissolve(gang=GangId(0, 1)))
        processes.processes.order(0, form(1, until=2, how="nothing"))
        processes.wait_for(SlotReady)
        processes.wait_for(GangBegan, lambda started: started.gang == GangId(1, 1))


def test_a_gang_of_several_is_formed_again_in_the_same_processes(tmp_path: Path) -> None:
    with crew_of("count", tmp_path, slots=3, preload=("torch",)) as processes:
        before = processes.processes.pids
        for generation, size in enumerate((2, 3, 1, 3), start=1):
            after = 3 * (generation - 1)
            for rank in range(size):
                processes.processes.order(
                    rank, form(generation=generation, rank=rank, size=size, after=after, until=after + 3)
                )
            if size > 1:
                meeting = processes.wait_for(Listening).meeting
                for rank in range(1, size):
                    processes.processes.order(rank, Join(gang=GangId(0, generation), meeting=meeting))
            assert rows_until(processes, "reached") == [after + 1, after + 2, after + 3]
            processes.processes.order(0, Keep(gang=GangId(0, generation)))
            processes.wait_for(Kept)
        assert processes.processes.pids == before


@pytest.mark.slow  # once is in the test before
def test_a_gang_with_a_model_is_formed_again_and_again(tmp_path: Path) -> None:
    """Once in a while the end of a group would wait for itself."""
    with crew_of("linear", tmp_path, slots=2, preload=("torch",)) as processes:
        for generation in range(1, 13):
            after = 2 * (generation - 1)
            for rank in range(2):
                processes.processes.order(
                    rank, form(generation=generation, rank=rank, size=2, after=after, until=after + 2)
                )
            gang = GangId(0, generation)
            processes.processes.order(1, Join(gang=gang, meeting=processes.wait_for(Listening).meeting))
            assert rows_until(processes, "reached") == [after + 1, after + 2]
            processes.processes.order(0, Keep(gang=gang))
            processes.wait_for(Kept)


def test_a_rank_that_breaks_is_the_one_that_is_told(tmp_path: Path) -> None:
    with crew_of("second_rank_raises", tmp_path, slots=2, preload=("torch",)) as processes:
        for rank in range(2):
            processes.processes.order(rank, form(rank=rank, size=2, until=9))
        processes.processes.order(1, Join(gang=GangId(0, 1), meeting=processes.wait_for(Listening).meeting))
        assert "only rank 1 knows why" in processes.wait_for(Broken).error


def test_a_flush_is_answered_after_all_rows(tmp_path: Path) -> None:
    with crew_of("count", tmp_path, slots=2) as processes:
        processes.processes.order(0, form(until=4))
        processes.wait_for(Trained, lambda news: news.reason == "reached")
        processes.processes.order(0, Flush(number=1))
        assert processes.wait_for(Flushed).number == 1


def test_what_a_trial_prints_is_in_its_log(tmp_path: Path) -> None:
    with crew_of("chatty", tmp_path, logs=True) as processes:
        for trial in (0, 1):
            processes.processes.order(0, form(trial, until=2))
            rows_until(processes, "reached")
            processes.processes.order(0, Keep(gang=GangId(trial, 1)))
            processes.wait_for(Kept)
    assert (tmp_path / "trial-00001.log").read_text().splitlines() == ["hello 1", "hello 2"]


def test_the_next_trial_prints_where_another_has_closed_its_output(tmp_path: Path) -> None:
    with crew_of("closes_its_output", tmp_path, logs=True) as processes:
        for trial in (0, 1):
            processes.processes.order(0, form(trial, until=1))
            assert rows_until(processes, "reached") == [1]
            processes.processes.order(0, Keep(gang=GangId(trial, 1)))
            processes.wait_for(Kept)
    for trial in (0, 1):
        assert (tmp_path / f"trial-0000{trial}.log").read_text() == "hello 1\n"


def test_every_process_ends_with_the_crew(tmp_path: Path) -> None:
    with crew_of("misbehave", tmp_path, slots=2) as processes:
        processes.processes.order(0, form(until=9, how="hang"))
        processes.wait_for(Trained)
        pids = processes.processes.pids
    wait_until(lambda: not any(map(is_alive, pids)))


def test_a_trial_finds_the_surroundings_that_the_first_one_found(tmp_path: Path) -> None:
    with crew_of("wanders", tmp_path) as processes:
        for trial in range(2):
            processes.processes.order(0, form(trial, until=1))
            (row,) = processes.wait_for(Trained, lambda news: bool(news.rows)).rows
            assert row[2] == {"score": 0.0}
            processes.processes.order(0, Keep(gang=GangId(trial, 1)))
            processes.wait_for(Kept)


def test_helpers_of_a_dead_process_go_with_it_and_hold_nobody_up(tmp_path: Path) -> None:
    with crew_of("helped", tmp_path) as processes:
        processes.processes.order(0, form(until=9))
        (row,) = processes.wait_for(Trained, lambda news: bool(news.rows)).rows
        assert "exit code 9" in processes.wait_for(Broken).error
        processes.wait_for(SlotReady)
        helper = int(row[2]["score"])
        wait_until(lambda: not is_alive(helper))


def test_a_goodbye_that_takes_too_long_is_cut_short(tmp_path: Path) -> None:
    with crew_of("slow_goodbye", tmp_path) as processes:
        processes.processes.order(0, form(until=1))
        rows_until(processes, "reached")
        processes.processes.order(0, Keep(gang=GangId(0, 1)))
        processes.wait_for(Kept)
        processes.processes.order(0, Dissolve(gang=GangId(0, 1), grace_s=0.5))
        processes.processes.order(0, form(1, until=1))
        processes.wait_for(GangBegan, lambda started: started.gang == GangId(1, 1))


def test_a_gang_that_exchanges_nothing_is_refused_in_its_first_iteration(tmp_path: Path) -> None:
    """Two independent trainings would be paid as one."""
    with crew_of("lonely", tmp_path, slots=2, preload=("torch",)) as processes:
        for rank in range(2):
            processes.processes.order(rank, form(rank=rank, size=2))
        processes.processes.order(1, Join(gang=GangId(0, 1), meeting=processes.wait_for(Listening).meeting))
        broken = processes.wait_for(Broken)
        assert broken.fault
        assert "lonely trained on 2 workers that exchanged nothing: 2 independent trainings" in broken.error
        assert "worker.wrap(model)" in broken.error
        assert not broken.rows


def test_a_slot_with_a_gpu_on_a_node_without_one_is_unfit_unless_gpus_are_logical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv(LOGICAL_GPUS, raising=False)
    with crew_of("count", tmp_path, gpus=1, fit=False) as processes:
        unfit = processes.wait_for(SlotUnfit)
        assert "slot asks for 1 GPU, but torch can use none on this node" in unfit.error
    monkeypatch.setenv(LOGICAL_GPUS, "1")
    with crew_of("count", tmp_path, gpus=1):
        pass
