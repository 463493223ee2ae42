"""What TensorBoard itself reads of a run."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

from elastune.api.results import LoadedRun
from elastune.errors import JobError
from tests.exports.odd_runs import odd_run
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    return odd_run(tmp_path_factory.mktemp("odd"))


def scalars(folder: Path) -> Any:

    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def test_every_trial_has_its_scalars(odd: LoadedRun, tmp_path: Path) -> None:
    (written,) = odd.export("tensorboard", tmp_path)
    assert Path(written) == tmp_path / f"odd-{odd.run}"
    rows = odd.rows()
    folders = sorted(Path(written).iterdir())
    assert [folder.name for folder in folders] == [f"trial-{number:05d}" for number in range(24)]
    for number, folder in enumerate(folders):
        mine = rows[rows["trial"] == number]
        read = scalars(folder)
        assert set(read.Tags()["scalars"]) == {"score", "inf", "trial", "größe (%)"}
        score = read.Scalars("score")
        assert [each.step for each in score] == list(mine["iteration"])
        assert np.allclose([each.value for each in score], mine["score"], equal_nan=True)
        assert all(math.isinf(each.value) for each in read.Scalars("inf"))
        times = np.diff([each.wall_time for each in score])
        assert np.allclose(times, np.diff(mine["at_s"]), atol=1e-3)


def test_the_hparams_tab_has_the_configurations_and_how_trials_ended(odd: LoadedRun, tmp_path: Path) -> None:

    (written,) = odd.export("tensorboard", tmp_path)
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(written)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, written)
    context = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    experiment = context.experiment_from_metadata(
        RequestContext(), "e", True, context.hparams_metadata(RequestContext(), "e"), None
    )
    assert {info.name for info in experiment.hparam_infos} == {
        "x", "name", "flag", "mixed", "depth", "constant", "nothing",
    }  # fmt: skip
    request = api_pb2.ListSessionGroupsRequest(
        slice_size=100,
        allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING],
    )
    handler = list_session_groups.Handler(RequestContext(), context, "e", request)
    groups = {group.name: group for group in handler.run().session_groups}
    assert len(groups) == 24
    for line in odd.trials().to_dict("records"):
        group = groups[f"trial-{line['trial']:05d}"]
        assert group.hparams["flag"].bool_value == line["config/flag"]
        assert group.hparams["x"].number_value == line["config/x"]
        assert group.hparams["constant"].string_value == "käse"
        failed = line["status"] == "failed"
        assert group.sessions[0].status == (api_pb2.STATUS_FAILURE if failed else api_pb2.STATUS_SUCCESS)


def test_a_second_export_replaces_the_first_and_nothing_else(odd: LoadedRun, tmp_path: Path) -> None:
    (written,) = odd.export("tensorboard", tmp_path)
    foreign = Path(written) / "trial-00000" / "notes.txt"
    foreign.write_text("mine")
    odd.export("tensorboard", tmp_path)
    assert foreign.read_text() == "mine"
    read = scalars(Path(written) / "trial-00001")
    assert [each.step for each in read.Scalars("score")] == list(
        odd.rows().loc[lambda rows: rows["trial"] == 1, "iteration"]
    )


def test_without_the_library_it_is_reported_what_to_install(
    odd: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "tensorboard" else find(name, *more)
    )
    with pytest.raises(JobError, match=r"needs tensorboard: pip install 'elastune\[tensorboard\]'"):
        odd.export("tensorboard", tmp_path)


def test_neither_tensorflow_nor_torch_is_loaded(odd: LoadedRun, tmp_path: Path) -> None:
    code = (
        "import sys, elastune; elastune.load_run(sys.argv[1]).export('tensorboard', sys.argv[2]);"
        "print(sorted({'torch', 'tensorflow', 'pandas', 'mlflow'} & set(sys.modules)))"
    )
    line = [sys.executable, "-c", code, str(odd.path), str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.strip() == "[]"
