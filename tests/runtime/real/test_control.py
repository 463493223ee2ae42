"""Requests to a living driver, and a run that goes on after its end, in real processes."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import elastune
from elastune.api.controlling import ask, prepare_extension
from elastune.core import events as ev
from elastune.errors import ExecutionError, JobError
from elastune.journal.codec import event_of
from elastune.journal.run_folders import find_run
from elastune.journal.store import Journal
from elastune.runs.control.requests import AddConfig, Extension, RefusedRequestError, RunRequest, StopTrial
from elastune.runs.run_list import RunState
from tests.runtime.real.drivers import Driver
from tests.runtime.real.runs import our_processes, wait_until_gone

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
ASHA = {"algorithm": "asha", "trials": 4, "max_iterations": 9, "eta": 3, "max_slots_per_trial": 1}


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def events(folder: Path) -> list[ev.AnyEvent]:
    found = find_run(folder, "last")
    return [event_of(entry) for entry in Journal.open(found.journal).read(found.record.run)]


def audited(folder: Path) -> bool:
    audit = elastune.status("last", folder=folder, audit=True).audit
    return audit is not None and audit.is_clean


def test_a_running_run_takes_requests_and_goes_on_after_its_end_from_its_checkpoints(tmp_path: Path) -> None:
    driver = Driver(tmp_path, search=ASHA, budget=5)
    runs = tmp_path / "runs"
    driver.wait_for_checkpoint()
    found = find_run(runs, "last")
    run = found.record.run
    with pytest.raises(ExecutionError, match=f"to change its limits, use `elastune extend {run}`"):
        elastune.resume("last", folder=runs)

    # The trainings stand still, the driver does not.
    changed = elastune.extend("last", folder=runs, deadline="+10m", trials="+2", max_nodes=3)
    assert changed.result is None
    assert changed.text == "from now on: deadline 1h10m, at most 3 nodes, 2 more trials"
    assert changed.forecast.expected is not None
    assert changed.forecast.budget_usd == 5.0
    assert ask(found, AddConfig(config={"x": 0.5})).accepted
    assert ask(found, StopTrial(trial=0, reason="a test")).accepted
    refused: list[tuple[RunRequest, str]] = [
        (AddConfig(config={"x": 7}), "expected a number from 0 to 1"),
        (StopTrial(trial=0, reason="again"), r"trial 0 is over already \(stopped\)"),
        (StopTrial(trial=77, reason="r"), "there is no trial 77"),
        (Extension.of(deadline="1ms"), "too early"),
    ]
    for request, why in refused:
        with pytest.raises(RefusedRequestError, match=why):
            ask(found, request)
    elastune.stop("last", folder=runs)
    told = json.loads(driver.end())
    assert told["ending"] == "stopped"
    assert list((found.folder.path / "control").iterdir()) == []
    kinds = [type(event) for event in events(runs) if isinstance(event, ev.AnyRequest)]
    assert kinds == [ev.RunExtended, ev.ConfigAdded, ev.TrialStopAsked, ev.StopAsked]
    with pytest.raises(JobError, match="is not running"):
        elastune.add("last", {"x": 0.5}, folder=runs)
    with pytest.raises(JobError, match="to go on with new limits, use `elastune extend"):
        elastune.resume("last", folder=runs)

    # It was stopped before its limits: it goes on without new ones.
    before = elastune.load_run("last", folder=runs).rows()
    whole = elastune.extend("last", folder=runs)
    assert whole.result is not None
    assert whole.result.ending == "complete"
    assert whole.result.trials in {6, 7}  # 4, 2 more, and the added one if none was left to be drawn
    rows = elastune.load_run("last", folder=runs).rows(lost=True)
    assert not rows.duplicated(["trial", "iteration"]).any(), "what was saved is not trained again"
    assert len(rows) > len(before)
    assert (elastune.load_run("last", folder=runs).trials()["config/x"] == 0.5).sum() == 1
    assert [line.state for line in elastune.list_runs(runs).runs] == [RunState.COMPLETE]
    assert audited(runs)
    with pytest.raises(RefusedRequestError, match="the search is complete"):
        prepare_extension(find_run(runs, "last"), Extension.of(deadline="+10m"))


def test_a_run_whose_cluster_is_still_starting_says_so_and_is_stopped_when_it_begins(tmp_path: Path) -> None:
    driver = Driver(tmp_path, search=ASHA)
    runs = tmp_path / "runs"
    driver.wait_for(lambda: elastune.list_runs(runs).runs, "no run")
    driver.process.send_signal(signal.SIGSTOP)  # Ray takes seconds to start; this one takes as long as needed
    found = find_run(runs, "last")
    assert not events(runs)
    for look in (elastune.status, elastune.extend, partial(elastune.logs, trial="best")):
        with pytest.raises(ExecutionError, match=f"run {found.record.run} is starting: process"):
            look("last", folder=runs)
    with pytest.raises(JobError, match="no trial has started"):
        elastune.logs("last", folder=runs)
    assert [line.state for line in elastune.list_runs(runs).runs] == [RunState.RUNNING]
    driver.process.send_signal(signal.SIGCONT)
    assert elastune.stop("last", folder=runs) == found.record.run
    assert json.loads(driver.end())["ending"] == "stopped"
    assert audited(runs)


# Requests outlive a driver in tests/runs/test_control.py, and a run its driver in tests/exports/test_live.py.
@pytest.mark.slow
def test_a_request_that_a_killed_driver_had_journalled_is_applied_once_and_one_it_had_not_is_withdrawn(
    tmp_path: Path,
) -> None:
    driver = Driver(tmp_path, search=ASHA)
    runs = tmp_path / "runs"
    driver.wait_for_checkpoint()
    found = find_run(runs, "last")
    assert ask(found, AddConfig(config={"x": 0.25})).accepted
    driver.process.send_signal(signal.SIGSTOP)  # it stands still and does not answer any more
    answers: list[str] = []

    def late() -> None:
        try:
            ask(found, AddConfig(config={"x": 0.75}))
        except elastune.ElastuneError as error:
            answers.append(str(error))

    sender = threading.Thread(target=late)
    sender.start()
    driver.wait_for(lambda: list((found.folder.path / "control").glob("*.request.json")), "no request")
    driver.kill()
    driver.let_go()
    sender.join()
    assert "ended before it answered" in answers[0]
    result = elastune.resume("last", folder=runs)
    assert result.ending == "complete"
    given = list(elastune.load_run("last", folder=runs).trials()["config/x"])
    assert given.count(0.25) == 1
    assert 0.75 not in given
    assert audited(runs)
