"""Models in files that other programs open."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastune.checkpoints.encoding import encode
from elastune.checkpoints.store import Store
from elastune.errors import ExecutionError, JobError
from elastune.exports.model_file import METADATA
from elastune.exports.saved_model import SavedModel, saved_model
from elastune.history.result import BestTrial

torch = pytest.importorskip("torch")
BEST = BestTrial(trial=3, config={"lr": 0.1}, metric=0.5, iterations=7)


def odd_state() -> dict[str, Any]:
    optimizer = {
        "state": {0: {"step": torch.tensor(3.0)}},
        "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99)}],
    }
    return {
        "model": {"conv.weight": torch.arange(6.0).reshape(2, 3).to(torch.bfloat16), "bias": torch.ones(2)},
        "optimizer": optimizer,
        "mean": np.arange(3, dtype=">f4"),
        "count": np.int64(4),
        "epoch": 7,
        "name": "größe",
        "nothing": None,
        "empty": {},
        "loss": float("nan"),
    }


def kept(folder: Path, state: Any, *, pickles: bool = False) -> SavedModel:
    store = Store.open(folder / "checkpoints")
    store.write(3, 7, encode(state, pickles=pickles))
    return saved_model(BEST, store.path(3, 7))


def test_a_pt_file_is_opened_by_torch_without_running_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = kept(tmp_path, odd_state()).export(tmp_path / "out" / "model.pt")
    found = torch.load(path, weights_only=True)
    expected = odd_state()
    assert torch.equal(found["model"]["conv.weight"], expected["model"]["conv.weight"])
    assert found["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]
    assert found["mean"].tolist() == [0.0, 1.0, 2.0]
    assert (found["count"], type(found["count"]), found["epoch"], found["nothing"]) == (4, int, 7, None)
    assert "1 array became tensors" in caplog.text


def test_a_safetensors_file_has_names_with_dots_and_the_rest_as_metadata(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    safetensors = pytest.importorskip("safetensors")
    path = kept(tmp_path, odd_state()).export(tmp_path / "model.safetensors")
    with safetensors.safe_open(path, framework="pt") as file:
        names, metadata = set(file.keys()), file.metadata()
        weight = file.get_tensor("model.conv.weight")
    assert names == {"model.conv.weight", "model.bias", "optimizer.state.0.step", "mean"}
    assert torch.equal(weight, odd_state()["model"]["conv.weight"])
    others = json.loads(metadata[METADATA])
    assert others["optimizer.param_groups.0.betas.1"] == 0.99
    assert (others["epoch"], others["name"], others["count"], others["empty"]) == (7, "größe", 4, {})
    assert (metadata["elastune.trial"], metadata["elastune.metric"]) == ("3", "0.5")
    assert "that are not tensors are in its metadata" in caplog.text


def test_a_part_of_the_state_fits_the_module(tmp_path: Path) -> None:
    model = kept(tmp_path, {"model": torch.nn.Linear(2, 1).state_dict(), "epoch": 1})
    torch.nn.Linear(2, 1).load_state_dict(torch.load(model.export(tmp_path / "a.pth", part="model")))
    with pytest.raises(JobError, match="the state has no 'net' there; it has model, epoch"):
        model.export(tmp_path / "b.pt", part="net")


def test_what_a_format_cannot_hold_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = kept(tmp_path, {"words": np.array(["a", "b"])})
    with pytest.raises(JobError, match=r"state\['words'\] is an array of <U1, not of numbers"):
        texts.export(tmp_path / "model.pt")
    with pytest.raises(JobError, match="the state has no tensors and no arrays"):
        texts.export(tmp_path / "model.safetensors")
    kept(tmp_path, {"w": torch.ones(1), "raw": b"bytes"}).export(tmp_path / "model.safetensors")
    assert r"left out, because safetensors cannot hold them: raw (bytes)" in caplog.text
    twice = kept(tmp_path, {"a.b": torch.ones(1), "a": {"b": torch.ones(1)}})
    with pytest.raises(JobError, match=r"two values of the state would have the name 'a\.b'"):
        twice.export(tmp_path / "twice.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "model.safetensors"]


def test_pickled_objects_are_exported_only_if_they_are_trusted(tmp_path: Path) -> None:
    model = kept(tmp_path, {"estimator": Path("an/object")}, pickles=True)
    with pytest.raises(ExecutionError, match="has pickled objects, which run code"):
        model.export(tmp_path / "model.pkl")
    path = model.export(tmp_path / "model.pkl", pickles=True)
    assert pickle.loads(path.read_bytes()) == {"estimator": Path("an/object")}


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    model = kept(tmp_path, {"w": torch.ones(1)})
    model.export(tmp_path / "model.pt")
    with pytest.raises(JobError, match=r"model\.pt exists already"):
        model.export(tmp_path / "model.pt")
    model.export(tmp_path / "model.pt", force=True)
    with pytest.raises(JobError, match=r"model\.onnx is not a model file; expected a name such as model\.pt"):
        model.export(tmp_path / "model.onnx")


def test_a_simulated_run_has_no_model_to_export() -> None:
    with pytest.raises(JobError, match="trial 3 has no model: the run was simulated"):
        BEST.export("model.pt")
