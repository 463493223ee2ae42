"""What W&B's own files hold of a run; nothing is sent anywhere."""

from __future__ import annotations

import json
import math
import os
import signal
from collections import defaultdict
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from elastune.api.results import LoadedRun
from elastune.errors import ExecutionError
from elastune.exports.files import CsvWriter, RunNews, WriterThread
from elastune.exports.wandb_writer import open_wandb
from elastune.exports.writer_process import WriterProcess
from elastune.history.trials import RowEntry
from elastune.runs.results import Results, read_results
from tests.exports.odd_runs import odd_run
from tests.waiting import wait_until

pytestmark = [
    # Importing it takes seconds, in every process that collects tests.
    pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.xdist_group("wandb"),  # seconds to import
]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "offline")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    space = {"x": {"float": [0.0, 1.0], "grid": 2}, "name": ["gut", "schlecht"]}
    return odd_run(tmp_path_factory.mktemp("odd"), space=space)


class Written:
    """The records of one offline run, as W&B reads them back."""

    def __init__(self, path: Path) -> None:
        from wandb.proto.wandb_internal_pb2 import Record  # noqa: PLC0415 - heavy
        from wandb.sdk.internal.datastore import DataStore  # noqa: PLC0415 - heavy

        self.config: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}
        self.history: dict[int, dict[str, Any]] = {}
        self.tags: set[str] = set()
        self.group = self.project = self.name = ""
        self.exit_code: int | None = None
        store = DataStore()
        store.open_for_scan(str(next(path.glob("*.wandb"))))
        while (data := store.scan_data()) is not None:
            record = Record()
            record.ParseFromString(data)
            self._take(record)
        store.close()

    def _take(self, record: Any) -> None:
        match record.WhichOneof("record_type"):
            case "run":
                self.group, self.project = record.run.run_group, record.run.project
                self.name, self.tags = record.run.display_name, set(record.run.tags)
                self.config |= _items(record.run.config.update)
            case "config":
                self.config |= _items(record.config.update)
            case "summary":
                self.summary |= _items(record.summary.update)
            case "history":
                row = _items(record.history.item)
                self.history[record.history.step.num] = row
            case "exit":
                self.exit_code = record.exit.exit_code


def _items(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def written(folder: Path) -> dict[int, Written]:
    """By trial; each trial has one W&B run."""
    runs: dict[int, list[Written]] = defaultdict(list)
    for path in (folder / "wandb").glob("offline-run-*"):
        runs[int(path.name.rpartition("-")[2])].append(Written(path))
    assert all(len(each) == 1 for each in runs.values())
    return {number: each[0] for number, each in runs.items()}


def check(folder: Path, results: Results) -> None:
    found = written(folder)
    assert set(found) == {line.trial for line in results.trials}
    assert results.best is not None
    for line in results.trials:
        run = found[line.trial]
        assert (run.project, run.group) == (results.head.name, f"{results.head.name}-{results.head.run}")
        assert run.name == f"trial-{line.trial:05d}"
        assert {name: run.config[name] for name in line.config} == dict(line.config)
        mine = [row for row in results.rows if row.trial == line.trial]
        assert sorted(run.history) == [row.iteration for row in mine]
        for row in mine:
            logged, value = float(run.history[row.iteration]["score"]), row.metrics["score"]
            assert logged == value or (math.isnan(logged) and math.isnan(value))
        assert run.summary["elastune/status"] == line.status
        assert run.summary.get("elastune/best") == line.best
        assert run.exit_code == (1 if line.status == "failed" else 0)
        assert ("best" in run.tags) == run.summary.get("elastune/is_best", False)
    assert [number for number, run in found.items() if "best" in run.tags] == [results.best.trial]


def test_a_run_of_wandb_for_each_trial_in_a_group(odd: LoadedRun, tmp_path: Path) -> None:
    (where,) = odd.export("wandb", tmp_path)
    assert where == f"W&B group odd-{odd.run} in project odd"
    check(tmp_path, read_results(odd.found))


def some_of(results: Results) -> Results:
    """The first trials and the best one: each takes W&B a second."""
    assert results.best is not None
    some = {0, 1, 2, results.best.trial}
    return replace(
        results,
        trials=tuple(line for line in results.trials if line.trial in some),
        rows=tuple(row for row in results.rows if row.trial in some),
    )


@pytest.mark.slow
def test_what_was_half_written_is_there_once_in_the_end(odd: LoadedRun, tmp_path: Path) -> None:
    """A driver that was killed, and one that took the run up again and told everything."""
    results = some_of(read_results(odd.found))
    unfinished = tuple(replace(line, status="running") for line in results.trials[:3])
    rows = tuple(row for row in results.rows if row.trial < 3 and row.iteration == 1)
    first = open_wandb(results.head, tmp_path)
    first.update(replace(results, trials=unfinished, rows=rows, ending=None).as_news())
    first._process.kill()
    first._process.wait()
    first._channel.close()
    second = open_wandb(results.head, tmp_path)
    second.update(replace(results, trials=unfinished, rows=rows, ending=None).as_news())
    rest = tuple(row for row in results.rows if row not in rows)
    second.update(replace(results, rows=rest).as_news())
    second.close()
    check(tmp_path, results)


def core_of(writer: WriterProcess) -> int:
    """W&B's service, a child of the writer."""
    for path in Path(f"/proc/{writer.pid}/task").glob("*/children"):
        for child in path.read_text().split():
            if "wandb-core" in Path(f"/proc/{child}/cmdline").read_text():
                return int(child)
    raise AssertionError("no service")


@pytest.mark.slow  # loggers that break in runtime/real/test_home.py
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_a_service_that_dies_ends_the_logging_and_nothing_else(odd: LoadedRun, tmp_path: Path) -> None:
    results = read_results(odd.found)
    writers: list[WriterProcess] = []

    def opener() -> WriterProcess:
        writers.append(open_wandb(results.head, tmp_path))
        return writers[0]

    thread = WriterThread("wandb", opener, explain=lambda why: f"stopped: {why}", now=lambda: 0.0)
    running = tuple(replace(line, status="running") for line in results.trials)
    thread.tell(replace(results, trials=running, rows=results.rows[:5], ending=None).as_news())
    wait_until(lambda: len(list((tmp_path / "wandb").glob("offline-run-*"))) == len(results.trials))
    os.kill(core_of(writers[0]), signal.SIGKILL)
    thread.tell(results.as_news())
    thread.close()
    assert thread.complaint is not None
    assert thread.complaint.text.startswith("stopped: ")
    assert "it has not answered" not in thread.complaint.text


@pytest.mark.slow  # loggers that break in runtime/real/test_home.py
def test_a_writer_in_a_process_of_its_own_writes_and_is_missed_when_it_dies(tmp_path: Path) -> None:
    writer = WriterProcess(partial(CsvWriter, tmp_path), where="there")
    writer.update(RunNews(trials=(), rows=(RowEntry(0, 1, 0.5, {"score": 1.0}, 1),)))
    assert (tmp_path / "rows.csv").read_text() == "trial,iteration,at_s,score\n0,1,0.5,1.0\n"
    os.kill(writer.pid, signal.SIGKILL)
    with pytest.raises(ExecutionError, match=r"its process [0-9]+ ended with status -9"):
        writer.update(RunNews(trials=(), rows=()))
    again = WriterProcess(partial(CsvWriter, tmp_path), where="there")
    again.close()
    with pytest.raises(ExecutionError, match=r"^FileExistsError: "):
        WriterProcess(partial(CsvWriter, tmp_path / "rows.csv"), where="a file")


@pytest.mark.slow
def test_without_a_key_nothing_is_asked(
    odd: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    results = read_results(odd.found)
    writer = open_wandb(results.head, tmp_path)
    with pytest.raises(ExecutionError, match=r"wandb login|API key|api_key"):
        writer.update(results.as_news())
