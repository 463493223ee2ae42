"""What a trial has printed, read and followed. The journal is that of a simulation, told as a real run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import elastune
from elastune.errors import ExecutionError, JobError
from elastune.journal.codec import event_of
from elastune.journal.records import Entry, RunId, RuntimeKind
from elastune.journal.run_folders import FoundRun, RunFolder, find_run
from elastune.journal.store import Journal
from elastune.journal.writer import Writer
from elastune.runs.reopening import setup_of
from elastune.runs.trial_logs import find_log
from tests.cli.commands import SYNTHETIC
from tests.cli.commands import elastune as command


class ToldRun:
    """A run whose driver lives: `tell` adds events to its journal."""

    def __init__(self, root: Path) -> None:
        campaign = elastune.simulate_many(SYNTHETIC, folder=root / "simulated")
        assert campaign.folder is not None
        source = Journal.open(campaign.folder.journal, read_only=True)
        (record,) = source.runs()
        self.entries: list[Entry] = list(source.read(record.run))
        self.record = replace(record, run=RunId("ab12cd"), body=RuntimeKind.RAY)
        folder = RunFolder.create(
            root / "runs", name="job", now_utc=record.created_utc, run=RunId(self.record.run)
        )
        self.logs = folder.logs
        self.writer: Writer = Journal.open(folder.journal, durable=False).start(self.record)
        self.told = 0
        self.tell(until=2)
        self.found: FoundRun = find_run(root / "runs", "ab12cd")

    def tell(self, until: int) -> None:
        for entry in self.entries[self.told : until]:
            self.writer.append(entry.number, entry.lines)
        self.told = max(until, self.told)
        self.writer.commit()

    def end_of(self, trial: int) -> int:
        """The number of the event with which the trial is over."""
        core = setup_of(self.found.record, Journal.open(self.found.journal, read_only=True)).make_core(
            self.record.seed
        )
        for entry in self.entries:
            core.handle(event_of(entry))
            each = next((each for each in core.state.trials.values() if each.number == trial), None)
            if each is not None and each.phase.is_over:
                return entry.number
        raise AssertionError(f"trial {trial} does not end")

    def prints(self, trial: int, text: str, rank: str = "") -> None:
        with (self.logs / f"trial-{trial:05d}{rank}.log").open("ab") as file:
            file.write(text.encode())


@pytest.fixture
def told(tmp_path: Path) -> Iterator[ToldRun]:
    run = ToldRun(tmp_path)
    yield run
    run.writer.close()


def test_a_log_is_read_as_a_whole_by_trial_and_rank(told: ToldRun) -> None:
    told.prints(3, "epoch 1\nepoch 2")
    told.prints(3, "second worker\n", rank=".rank-1")
    log = find_log(told.found, 3)
    assert (str(log), list(log)) == ("epoch 1\nepoch 2", ["epoch 1\n", "epoch 2"])
    assert str(find_log(told.found, "3", 1)) == "second worker\n"


def test_the_last_trial_is_the_one_that_printed_last(told: ToldRun) -> None:
    for trial, at in ((1, 50), (7, 20), (4, 90)):
        told.prints(trial, f"of {trial}\n")
        os.utime(told.logs / f"trial-{trial:05d}.log", (at, at))
    assert find_log(told.found, "last").trial == 4


def test_the_best_trial_is_that_of_the_result(told: ToldRun) -> None:
    with pytest.raises(JobError, match="run ab12cd has no best model yet"):
        find_log(told.found, "best")
    told.tell(until=len(told.entries))
    best = elastune.load_run(told.found.folder.path).best
    assert best is not None
    assert find_log(told.found, "best").trial == best.trial


def test_following_ends_with_the_trial_and_misses_nothing(told: ToldRun) -> None:
    end = told.end_of(2)
    steps = iter([("first\nsec", 3), ("ond\n", end - 1), ("last\nwithout newline", end)])

    def go_on(_: float) -> None:
        text, until = next(steps)
        told.prints(2, text)
        told.tell(until=until)

    lines = list(find_log(told.found, 2).follow(sleep=go_on))
    assert lines == ["first\n", "second\n", "last\n", "without newline"]
    assert not list(steps)


def test_following_ends_with_the_driver(told: ToldRun) -> None:
    told.prints(0, "only\n")
    assert list(find_log(told.found, 0).follow(sleep=lambda _: told.writer.close())) == ["only\n"]


def test_a_trial_without_a_log_is_told_with_those_that_have_one(told: ToldRun) -> None:
    with pytest.raises(JobError, match="has no logs yet"):
        find_log(told.found, "last")
    told.prints(3, "here\n")
    with pytest.raises(JobError, match="run ab12cd has no trial 999; it has trials 0 to"):
        str(find_log(told.found, 999))
    told.tell(until=len(told.entries))
    last = len(elastune.load_run(told.found.folder.path).trials()) - 1
    with pytest.raises(ExecutionError, match=r"trial 1 of run ab12cd has no log.* trials with a log: 3"):
        str(find_log(told.found, 1))
    with pytest.raises(ExecutionError, match="no log of rank 2; its log of rank 0 exists"):
        str(find_log(told.found, 3, 2))
    for number in (last + 1, 10**6):
        unknown = find_log(told.found, number)
        for read in (str, lambda log: list(log.follow())):
            with pytest.raises(
                JobError, match=f"run ab12cd has no trial {number}; it has trials 0 to {last}$"
            ):
                read(unknown)
    with pytest.raises(JobError, match="trial is 'first'; expected a number, best or last"):
        find_log(told.found, "first")


def test_following_a_run_that_is_starting_waits_for_its_first_event(told: ToldRun, tmp_path: Path) -> None:
    folder = RunFolder.create(
        tmp_path / "early", name="job", now_utc=told.record.created_utc, run=RunId(told.record.run)
    )
    writer = Journal.open(folder.journal, durable=False).start(told.record)
    found = find_run(tmp_path / "early", "last")

    def begin(_: float) -> None:
        if writer.next_number == 1:
            writer.append(1, told.entries[0].lines)
            (folder.logs / "trial-00000.log").write_text("first\n")
        writer.close()

    assert list(find_log(found, 0).follow(sleep=begin)) == ["first\n"]


def test_a_simulated_run_prints_nothing(told: ToldRun) -> None:
    simulated = find_run(told.found.folder.path.parent.parent / "simulated", "last")
    with pytest.raises(JobError, match="is simulated: its trials print nothing"):
        find_log(simulated, 0)


def test_the_command_prints_a_log(told: ToldRun, tmp_path: Path) -> None:
    told.prints(5, "größe\n")
    done = command("logs", "ab12", "5", "--runs-folder", "runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "größe\n")
    told.writer.close()
    done = command("logs", "ab12", "-f", "--runs-folder", "runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "größe\n")
    refused = command("logs", "ab12", "999", "--runs-folder", "runs", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: run ab12cd has no trial 999; it has trials 0 to ")
