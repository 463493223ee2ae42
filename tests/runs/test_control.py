"""The control channel: each request is applied once or withdrawn, whatever dies in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import ExecutionError, JobError
from elastune.journal.run_folders import RunFolder
from elastune.runs.control.channel import ControlFolder, RequestAnswer
from elastune.runs.control.requests import (
    AddConfig,
    Extension,
    LimitChange,
    RefusedRequestError,
    RunRequest,
    StopRun,
    StopTrial,
    SuspendRun,
    decode_request,
    encode_request,
)

YES = RequestAnswer(accepted=True, text="yes")
NO = RequestAnswer(accepted=False, text="it is too late")
STOP = StopRun(reason="enough")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(path=tmp_path)


@pytest.fixture
def control(folder: RunFolder) -> ControlFolder:
    return ControlFolder(folder)


def files(folder: RunFolder) -> list[str]:
    return sorted(path.name for path in (folder.path / "control").iterdir())


def driver(control: ControlFolder, answer: RequestAnswer) -> Callable[[], bool]:
    """One that answers when the sender looks whether it is alive."""

    def is_alive() -> bool:
        for received in control.take():
            control.answer(received.id, answer)
        return True

    return is_alive


@pytest.mark.parametrize("answer", [YES, NO])
def test_the_sender_gets_the_answer_of_the_driver_and_nothing_is_left(
    control: ControlFolder, folder: RunFolder, answer: RequestAnswer
) -> None:
    assert control.answer_to(control.send(STOP), driver(control, answer)) == answer
    assert files(folder) == []


def test_requests_are_taken_in_the_order_in_which_they_were_sent_and_once(control: ControlFolder) -> None:
    sent = [StopTrial(trial=number, reason="r") for number in range(5)]
    for request in sent:
        control.send(request)
    assert [received.request for received in control.take()] == sent
    assert list(control.take()) == []


def test_a_driver_that_died_leaves_what_it_took_to_the_next_one(
    folder: RunFolder, control: ControlFolder
) -> None:
    id_ = control.send(STOP)
    (taken,) = control.take()
    (again,) = ControlFolder(folder).take_left_over()
    assert taken == again
    assert taken.id == id_
    control.answer(id_, YES)
    assert list(ControlFolder(folder).take_left_over()) == []


def test_a_request_to_a_driver_that_is_gone_is_withdrawn(control: ControlFolder, folder: RunFolder) -> None:
    assert control.answer_to(control.send(STOP), lambda: False) is None
    assert files(folder) == []
    assert list(control.take()) == []


def test_a_request_to_a_silent_driver_is_withdrawn_or_waits_for_it(
    control: ControlFolder, folder: RunFolder
) -> None:
    assert control.answer_to(control.send(STOP), lambda: True, wait_s=0.0) is None
    assert files(folder) == []
    assert control.answer_to(control.send(STOP), lambda: True, wait_s=0.0, stays=True) is None
    assert [received.request for received in control.take()] == [STOP]


def test_an_answer_that_comes_with_the_drivers_death_counts(control: ControlFolder) -> None:
    def dies() -> bool:
        return not driver(control, YES)()

    assert control.answer_to(control.send(STOP), dies) == YES


def test_requests_to_end_are_dropped_when_a_run_goes_on_and_others_wait(
    control: ControlFolder, folder: RunFolder
) -> None:
    added = AddConfig(config={"lr": 0.1})
    for request in (STOP, added, SuspendRun(reason="Ctrl-C")):
        control.send(request)
    control.drop_stops()
    assert [received.request for received in control.take_left_over()] == [added]
    assert len([name for name in files(folder) if name.endswith(".answer.json")]) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"kind": "dance"}', '{"kind": "stop"}', '{"kind": "stop", "reason": 7}', '"stop"',
     '{"kind": "stop-trial", "trial": true, "reason": "r"}', '{"kind": "add", "config": 1}',
     '{"kind": "extend", "deadline": "soon"}', '{"kind": "extend", "slots": 3}', "x" * 200_000],
)  # fmt: skip
def test_a_file_that_holds_no_request_is_refused_with_a_reason(
    control: ControlFolder, folder: RunFolder, text: str
) -> None:
    (folder.path / "control").mkdir()
    (folder.path / "control" / "1.request.json").write_text(text)
    (received,) = control.take()
    assert isinstance(received.request, RefusedRequestError)
    assert "not a request" in str(received.request)


def test_other_files_half_written_ones_and_links_are_not_read(
    control: ControlFolder, folder: RunFolder, tmp_path: Path
) -> None:
    home = folder.path / "control"
    home.mkdir()
    for name in ("notes.txt", ".1.request.json.part", "2.answer.json"):
        (home / name).write_text(json.dumps(encode_request(STOP)))
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(encode_request(STOP)))
    (home / "3.request.json").symlink_to(secret)
    (received,) = control.take()
    assert received.id == "3"
    assert isinstance(received.request, RefusedRequestError)
    assert {"notes.txt", ".1.request.json.part", "2.answer.json"} <= set(files(folder))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "control"
    path.write_text("a file")
    with pytest.raises(ExecutionError, match="control"):
        ControlFolder(RunFolder(path=tmp_path)).send(STOP)


changes = st.builds(LimitChange, value=st.floats(0.001, 1e8), is_more=st.booleans())
counts = st.builds(LimitChange, value=st.integers(1, 10_000), is_more=st.booleans())
extensions = st.builds(
    Extension,
    deadline=st.none() | changes,
    budget=st.none() | changes,
    trials=st.none() | counts,
    max_nodes=st.none() | counts,
)
configs = st.dictionaries(st.text(max_size=5), st.integers() | st.booleans() | st.text(max_size=5))


@given(
    st.builds(StopRun, reason=st.text())
    | st.builds(SuspendRun, reason=st.text())
    | st.builds(StopTrial, trial=st.integers(0, 10_000), reason=st.text())
    | st.builds(AddConfig, config=configs)
    | extensions
)
def test_a_request_comes_back_as_it_was(request_: RunRequest) -> None:
    assert decode_request(json.loads(json.dumps(encode_request(request_)))) == request_


@pytest.mark.parametrize(
    ("written", "change"),
    [
        ({"deadline": "+30m"}, LimitChange(value=1800.0, is_more=True)),
        ({"deadline": "1h"}, LimitChange(value=3600.0)),
        ({"budget": "+$5"}, LimitChange(value=5.0, is_more=True)),
        ({"budget": 12.5}, LimitChange(value=12.5)),
        ({"trials": "+8"}, LimitChange(value=8, is_more=True)),
        ({"max_nodes": 4}, LimitChange(value=4)),
    ],
)
def test_limits_are_written_as_in_a_job_or_with_a_plus(
    written: dict[str, object], change: LimitChange
) -> None:
    (name,) = written
    assert getattr(Extension.of(**written), name) == change


@pytest.mark.parametrize(
    "written",
    [{"deadline": "soon"}, {"deadline": "+"}, {"budget": "-1"}, {"trials": "+0"}, {"max_nodes": 1.5}],
)
def test_a_limit_that_cannot_be_read_says_what_is_expected(written: dict[str, object]) -> None:
    with pytest.raises(JobError, match=r"is .*; expected .*begin it with \+"):
        Extension.of(**written)
