"""Gangs that stay at a barrier, in real processes and in the simulator: one start, and a checkpoint there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.events import AnyEvent
from elastune.core.state import State
from elastune.history.recorder import commands_of
from elastune.journal.codec import event_of
from elastune.journal.store import Journal
from tests.runtime.real.runs import (
    Watch,
    as_function,
    assert_undisturbed,
    job_of,
    kill,
    our_processes,
    run,
    slot_processes,
    wait_until_gone,
)
from tests.waiting import SLOW_BOOT_S

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

# Every gang has one slot, whatever speed is observed; the two nodes are held to the end.
STAYING: dict[str, Any] = {
    "search": {
        "algorithm": "sha",
        "trials": 4,
        "min_iterations": 2,
        "max_iterations": 8,
        "eta": 2,
        "max_slots_per_trial": 1,
    },
    "cluster": {"slots_per_node": 2, "nodes": 2, "price_per_hour": 3.6, "init": SLOW_BOOT_S},
}


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def journal_of(path: Path) -> tuple[list[AnyEvent], list[object]]:
    """The events and the commands of the only run."""
    journal = Journal.open(path, read_only=True)
    (record,) = journal.runs()
    entries = list(journal.read(record.run))
    return [event_of(entry) for entry in entries], [each for entry in entries for each in commands_of(entry)]


def stories(events: list[AnyEvent]) -> dict[int, list[str]]:
    """What the gangs of each trial did, in order."""
    told: dict[int, list[str]] = defaultdict(list)
    for event in events:
        match event:
            case ev.GangStarted():
                told[event.trial].append(f"gang {event.generation} starts")
            case ev.LeaseEnded():
                told[event.trial].append(f"gang {event.generation} waits, {event.reason.value}")
            case ev.TrialPaused():
                told[event.trial].append(f"gang {event.generation} is saved, stays: {event.stays}")
    return told


def test_in_both_runtimes_a_survivor_starts_once_and_is_saved_at_every_barrier(tmp_path: Path) -> None:
    job = job_of("signs", **STAYING)
    simulated = tmp_path / "simulated.sqlite"
    elastune.simulate(as_function(job), journal=simulated)
    finished = run(job, tmp_path / "runs")
    events, commands = journal_of(finished.folder.journal)
    assert stories(events) == stories(journal_of(simulated)[0])
    best = finished.result.best
    assert best is not None
    one = "gang 1 waits, reached"
    stays, ends = "gang 1 is saved, stays: True", "gang 1 is saved, stays: False"
    assert stories(events)[best.trial] == ["gang 1 starts", one, stays, one, stays, one, ends]
    rows = [row for e in events if isinstance(e, ev.Progressed) and e.trial == best.trial for row in e.rows]
    assert len({row.metrics["pid"] for row in rows}) == 1
    assert [row.metrics["since"] for row in rows] == list(range(1, 9))
    assert finished.result.ending is Ending.COMPLETE
    assert {pause.stay for pause in commands if isinstance(pause, do.Pause)} == {True, False}


class _KillNode(Watch):
    """As soon as a gang waits at the barrier, saved."""

    def is_time(self, state: State) -> bool:
        return any(trial.is_kept for trial in state.trials.values())

    def act(self) -> None:
        raylets = [pid for pid, line in our_processes().items() if "raylet/raylet" in line]
        kill([max(raylets)])  # the head's is the oldest


@pytest.mark.slow
def test_a_node_that_is_lost_while_gangs_wait_costs_time_and_nothing_else(
    tmp_path: Path,
) -> None:
    watch = _KillNode()
    slow = {"x": {"float": [0.0, 1.0]}, "sleep": {"float": [0.05, 1.0]}}
    job = job_of("signs", **STAYING, space=slow)
    finished = run(job, tmp_path, watch)
    assert watch.acted
    assert_undisturbed(finished, job)
    events, _ = journal_of(finished.folder.journal)
    assert any(isinstance(event, ev.NodeLost) for event in events)
    assert any(event.stays for event in events if isinstance(event, ev.TrialPaused))


class _KillWorker(Watch):
    """Kill the processes of a gang that waits; those of others, too: they are told apart by nothing."""

    def is_time(self, state: State) -> bool:
        return any(trial.is_kept for trial in state.trials.values())

    def act(self) -> None:
        kill([slot_processes()[-1]])


@pytest.mark.slow
def test_workers_that_die_while_they_wait_are_no_fault_of_their_trials(tmp_path: Path) -> None:
    watch = _KillWorker()
    slow = {"x": {"float": [0.0, 1.0]}, "sleep": {"float": [0.05, 1.0]}}
    job = job_of("signs", **STAYING, space=slow)
    finished = run(job, tmp_path, watch)
    assert watch.acted
    assert_undisturbed(finished, job)
