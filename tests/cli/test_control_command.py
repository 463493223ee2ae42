"""`elastune extend`, `stop` and `add`: what is asked of a run, and what the command says about it.

The runs are simulated and recorded as real ones; a thread is their driver.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from elastune.curves.source import UnknownSource
from elastune.errors import ExecutionError
from elastune.history.result import Estimate
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.store import Journal
from elastune.runs.control.channel import ControlFolder, RequestAnswer
from elastune.runs.control.granting import admit
from elastune.runs.control.requests import RefusedRequestError, describe
from elastune.runs.run_files import write_prepared
from elastune.runs.simulation import Simulation
from elastune.setup.run_setup import SetupPurpose, prepare
from tests.cli.commands import elastune
from tests.runs.checked_run import job_of
from tests.runtime.real.slot_processes import TRAINABLES
from tests.waiting import wait_until

RUN = "3fa2c1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Recorded:
    """A run in `root` that looks like a real one."""

    root: Path
    simulation: Simulation = field(init=False)

    def __post_init__(self) -> None:
        job = job_of(
            None, trainable=f"{TRAINABLES}:count", search__algorithm="asha", deadline=100.0, budget=5.0
        )
        setup = prepare(job, purpose=SetupPurpose.RUN)
        self.folder = RunFolder.create(self.root, name="job", now_utc=NOW, run=RunId(RUN))
        predicted = Estimate(jct_seconds=1.0, cost=1.0)
        write_prepared(self.folder, job, _Quote(), setup.policy, predicted)  # type: ignore[arg-type]
        record = RunRecord(
            run=RunId(RUN), name="job", created_utc=NOW, body=RuntimeKind.RAY, policy="asha", seed=0
        )
        journal = Journal.open(self.folder.journal, durable=False)
        source = UnknownSource(setup.terms.metric)
        self.simulation = Simulation(setup, seed=0, journal=journal, record=record, trainable=source)
        self.simulation.start()

    def until(self, at_s: float) -> Recorded:
        while self.simulation.core.state.now_s < at_s and self.simulation.step():
            pass
        self.simulation.writer.commit()
        return self

    def end(self) -> Recorded:
        self.until(1e9)
        self.simulation.writer.close()
        return self

    @contextlib.contextmanager
    def driven(self) -> Iterator[list[str]]:
        """A thread takes requests as a driver does; yields what it applied."""
        core, applied, over = self.simulation.core, [], threading.Event()
        control = ControlFolder(self.folder)

        def serve() -> None:
            while not over.wait(0.02):
                for received in control.take():
                    assert not isinstance(received.request, RefusedRequestError)
                    at_s = core.state.now_s
                    event = admit(
                        received.request, core, self.simulation.setup, request_id=received.id, at_s=at_s
                    )
                    if isinstance(event, RequestAnswer):
                        control.answer(received.id, event)
                        continue
                    self.simulation.driver(event)
                    self.simulation.writer.commit()
                    applied.append(type(event).__name__)
                    control.answer(received.id, RequestAnswer(accepted=True, text=describe(event)))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield applied
        finally:
            over.set()
            thread.join()


class _Quote:
    def to_dict(self) -> dict[str, object]:
        return {}


def test_extend_shows_what_it_will_take_and_the_new_limits(tmp_path: Path) -> None:
    run = Recorded(tmp_path / "elastune-runs").until(40.0)
    with run.driven() as applied:
        done = elastune("extend", "last", "--deadline", "+5m", "--trials", "+3", cwd=tmp_path)
        data = elastune("extend", RUN, "--budget", "+$5", "--max-nodes", "8", "--json", cwd=tmp_path)
    run.simulation.writer.close()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"run {RUN} is running"
    assert [line.split()[0] for line in lines[1:4]] == ["so", "expected", "at"]
    assert lines[3] == "at most   6m40s and $5.00, on up to 6 nodes"
    assert lines[4] == f"run {RUN}, from now on: deadline 6m40s, 3 more trials"
    told = json.loads(data.stdout)
    assert told["accepted"] == "from now on: budget $10.00, at most 8 nodes"
    assert told["forecast"]["budget"] == 10.0
    assert told["forecast"]["deadline_seconds"] == 400.0
    assert told["forecast"]["most_more_cost"] <= 10.0
    assert applied == ["RunExtended", "RunExtended"]


def test_stop_add_and_suspend_say_what_happens(tmp_path: Path) -> None:
    run = Recorded(tmp_path / "elastune-runs").until(40.0)
    with run.driven() as applied:
        trial = elastune("stop", "last", "--trial", "1", cwd=tmp_path)
        again = elastune("stop", "last", "--trial", "1", "--json", cwd=tmp_path)
        added = elastune("add", "last", "--config", "{x: 0.5}", cwd=tmp_path)
        wrong = elastune("add", "last", "--config", '{"x": 7}', cwd=tmp_path)
        text = elastune("add", "last", "--config", "fast", cwd=tmp_path)
        rests = elastune("stop", "last", "--suspend", cwd=tmp_path)
    run.simulation.writer.close()
    assert trial.stdout.startswith(f"trial 1 of run {RUN} is stopped; ")
    assert again.returncode == 2
    assert json.loads(again.stdout)["message"].endswith("trial 1 is over already (stopped)")
    assert added.stdout == f"the next new trial of run {RUN} has this configuration\n"
    assert wrong.stderr == f"error: run {RUN} refuses: space.x is 7; expected a number from 0 to 1\n"
    assert "--config is 'fast'; expected values by name" in text.stderr
    assert rests.stdout.startswith(f"run {RUN} was asked to suspend; ")
    assert applied == ["TrialStopAsked", "ConfigAdded", "RestAsked"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("extend", "last", "--budget", "+1"), "the deadline of 1m40s is over"),
        (("extend", "last", "--deadline", "10s"), "too early"),
        (("extend", "last", "--deadline", "soon"), "deadline is 'soon'; expected a positive duration"),
        (("extend", "last", "--trials", "2"), "the run has 9 trials; expected more"),
        (("stop", "last"), "is not running"),
        (("add", "last", "--config", "{x: 0.1}"), "is not running"),
        (("stop", "last", "--trial", "1", "--suspend"), "expected one of them"),
        (("resume", "last", "--deadline", "+1s"), "deadline is '+1s'; expected a positive duration"),
        (("resume", "last", "--deadline", "+1s"), "elastune extend takes additions"),
        (("resume", "last"), "to go on with new limits, use `elastune extend 3fa2c1 --deadline=+30m`"),
    ],
)
def test_what_an_ended_run_cannot_do_is_refused_with_the_reason(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    Recorded(tmp_path / "elastune-runs").end()
    done = elastune(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_driver_that_ends_instead_of_answering_is_told(tmp_path: Path) -> None:
    run = Recorded(tmp_path / "elastune-runs").until(40.0)

    def end() -> None:
        wait_until(lambda: list((run.folder.path / "control").glob("*.request.json")), "no request")
        run.simulation.writer.close()

    thread = threading.Thread(target=end)
    thread.start()
    done = elastune("stop", "last", "--trial", "0", cwd=tmp_path)
    thread.join()
    assert done.returncode == ExecutionError.exit_code
    assert f"the driver of run {RUN} ended before it answered" in done.stderr
    assert not list((run.folder.path / "control").iterdir())


def test_a_request_to_a_run_that_fails_to_start_says_so(tmp_path: Path) -> None:
    """Its command removes the folder, because nothing has happened in it."""
    folder = RunFolder.create(tmp_path / "elastune-runs", name="job", now_utc=NOW, run=RunId(RUN))
    record = RunRecord(
        run=RunId(RUN), name="job", created_utc=NOW, body=RuntimeKind.RAY, policy="asha", seed=0
    )
    writer = Journal.open(folder.journal, durable=False).start(record)

    def fail() -> None:
        wait_until(lambda: list((folder.path / "control").glob("*.request.json")), "no request")
        writer.close()
        shutil.rmtree(folder.path)

    thread = threading.Thread(target=fail)
    thread.start()
    done = elastune("stop", "last", cwd=tmp_path)
    thread.join()
    assert done.returncode == ExecutionError.exit_code
    assert done.stderr == f"error: run {RUN} has not started; its command says why\n"


def test_a_simulated_run_takes_no_requests(tmp_path: Path) -> None:
    job = {
        "trainable": "synthetic:hypersched",
        "search": {"algorithm": "sha", "trials": 4, "max_iterations": 4},
    }
    job |= {
        "profile": {"iteration": 1},
        "cluster": {"slots_per_node": 1, "max_nodes": 1, "price_per_hour": 1},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    elastune("simulate", "job.yaml", cwd=tmp_path)
    for arguments in (
        ("stop", "last"),
        ("add", "last", "--config", "{a: 1}"),
        ("extend", "last", "--budget", "9"),
    ):
        done = elastune(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "is simulated" in done.stderr
