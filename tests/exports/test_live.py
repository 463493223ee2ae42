"""Real runs that are logged while they go: killed, resumed, and with a logger that breaks."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import elastune
from elastune.api.results import LoadedRun
from elastune.core.events import Progressed
from elastune.core.state import State
from tests.exports.test_mlflow import client_of
from tests.runs.test_callbacks import Records
from tests.runtime.real.drivers import Driver
from tests.runtime.real.runs import Watch, as_function, our_processes, wait_until_gone

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
    pytest.mark.xdist_group("mlflow"),
]


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = our_processes()
    yield
    wait_until_gone(before)


def check_csv(loaded: LoadedRun) -> None:
    rows, trials = loaded.rows(), loaded.trials()
    live = pd.read_csv(loaded.path / "export" / "rows.csv")
    key = ["trial", "iteration"]
    pd.testing.assert_frame_equal(
        live.sort_values(key)[[*key, "score", "done"]].reset_index(drop=True),
        rows.sort_values(key)[[*key, "score", "done"]].reset_index(drop=True),
        check_dtype=False,
    )
    table = pd.read_csv(loaded.path / "export" / "trials.csv")
    for name in ("trial", "status", "iterations", "best", "config/x", "nodes"):
        assert list(table[name]) == list(trials[name]), name
    assert list(table["checkpoint"].dropna()) == list(trials["checkpoint"].dropna())


def check_tensorboard(loaded: LoadedRun) -> None:
    rows = loaded.rows()
    for number in loaded.trials()["trial"]:
        accumulator = EventAccumulator(str(loaded.path / "tensorboard" / f"trial-{number:05d}"))
        accumulator.Reload()
        steps = [each.step for each in accumulator.Scalars("score")]
        assert steps == list(rows.loc[rows["trial"] == number, "iteration"])


def check_mlflow(loaded: LoadedRun, uri: str) -> None:
    client = client_of(uri)
    found = client.search_runs([client.get_experiment_by_name("live").experiment_id])
    children = {
        int(each.data.tags["elastune.trial"]): each for each in found if "elastune.trial" in each.data.tags
    }
    assert len(found) == len(children) + 1
    rows = loaded.rows()
    for line in loaded.trials().to_dict("records"):
        child = children[line["trial"]]
        assert child.data.tags["elastune.status"] == line["status"]
        assert child.info.status == "FINISHED"
        history = client.get_metric_history(child.info.run_id, "score")
        assert [each.step for each in history] == list(rows.loc[rows["trial"] == line["trial"], "iteration"])


class _LetsGo(Watch):
    """Once something can be seen while trials are trained: they stand still until then."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def is_time(self, state: State) -> bool:
        tables = self._driver.runs.glob("*/export/rows.csv")
        return state.ended is None and any(len(path.read_text().splitlines()) > 1 for path in tables)

    def act(self) -> None:
        self._driver.let_go()


def _is_logged(rows: Path, mlflow: Path) -> bool:
    """Something is in both. A kill while MLflow lays out its tables would leave a database it cannot open."""
    if not (rows.exists() and mlflow.exists() and len(rows.read_text().splitlines()) > 1):
        return False
    with contextlib.closing(sqlite3.connect(mlflow)) as database:
        try:
            return bool(database.execute("select count(*) from runs").fetchone()[0])
        except sqlite3.OperationalError:  # still without tables, or being written
            return False


def test_nothing_survives_a_driver_that_is_killed_and_once_resumed_all_is_logged_once(tmp_path: Path) -> None:
    before = our_processes()
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    logging = {"csv": True, "tensorboard": True, "mlflow": {"uri": uri, "experiment": "live"}}
    driver = Driver(tmp_path, logging=logging)
    rows = driver.wait_for_checkpoint() / "export" / "rows.csv"
    driver.wait_for(lambda: _is_logged(rows, tmp_path / "mlflow.db"), "nothing is logged")
    driver.wait_for_event(Progressed)
    driver.kill()
    wait_until_gone(before)
    status = elastune.status("last", folder=driver.runs)
    assert status.state == "interrupted"
    assert status.standing.iterations >= 1
    told = Records()
    result = elastune.resume("last", folder=tmp_path / "runs", watch=_LetsGo(driver), callbacks=[told])
    undisturbed = elastune.simulate(as_function(driver.job))
    assert (result.ending, result.phases) == ("complete", dict(undisturbed.phases))
    assert result.best is not None
    assert undisturbed.best is not None
    assert (result.best.trial, result.best.metric) == (undisturbed.best.trial, undisturbed.best.metric)
    audit = elastune.status("last", folder=driver.runs, audit=True).audit
    assert audit is not None
    assert audit.is_clean
    assert [start.resumed for start in told.starts] == [True]
    assert [(end.ending, end.best) for end in told.ends] == [("complete", result.best)]
    loaded = elastune.load_run("last", folder=tmp_path / "runs")
    trials = loaded.trials()
    assert list(trials["checkpoint"].dropna()) == [result.best.checkpoint]
    check_csv(loaded)
    check_tensorboard(loaded)
    check_mlflow(loaded, uri)
    assert result.run is not None
    everywhere = elastune.load_run(result.run)  # by the index: the folder of runs is elsewhere
    assert everywhere.best == result.best
    model = result.best.export(tmp_path / "model.pkl")
    assert pickle.loads(model.read_bytes()) == elastune.load_checkpoint(str(result.best.checkpoint))
    assert elastune.logs(result.run, "best").path.exists()
    loaded.export("mlflow", uri, experiment="live")  # as it is there already, nothing changes
    check_mlflow(loaded, uri)
