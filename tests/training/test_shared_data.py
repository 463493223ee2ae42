"""`elastune.shared`: the same values from one file, which goes when it is not needed any more."""

from __future__ import annotations

import functools
import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import elastune
from elastune.checks.sizes import carried_by, measure_bytes
from elastune.errors import JobError
from elastune.training import shared_data
from elastune.training.shared_data import (
    FOLDERS,
    SharedFunction,
    dump,
    explain_read_only,
    folders_after,
    refuse_writes,
)
from elastune.training.shared_file import find_map, open_maps
from tests.waiting import wait_until

pytest.importorskip("cloudpickle")


class Pair(NamedTuple):
    x: Any
    y: Any


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files go with the last array of them, and the folder with the last file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield
    if open_maps():  # arrays in cycles are collected late, and a collection takes 0.3 s in a long run
        gc.collect()
    assert open_maps() == []
    assert list(tmp_path.glob("elastune-shared-*")) == []


def mapped_files() -> set[str]:
    """Those of shared data in the memory of this process."""
    maps = Path("/proc/self/maps").read_text()
    return set(re.findall(r"\S*/elastune-shared-\S+", maps))


# Values.


def test_what_is_shared_is_the_same_in_the_same_places() -> None:
    x = np.arange(12.0).reshape(3, 4)
    value: dict[str, Any] = {
        "rows": [x, (x.T, np.asfortranarray(x))],
        "pair": Pair(x=np.array(3), y=np.empty((0, 5), np.int8)),
        "types": [np.array(["a", "bc"]), np.array(["2024-01-01"], "M8[D]"), np.array([True])],
        "names": {"classes": ["cat", "dog"], 7: None},
        "texts": np.array(["a", None], object),
    }
    found = elastune.shared(value)
    rows, (turned, other) = found["rows"]
    np.testing.assert_array_equal(rows, x)
    np.testing.assert_array_equal(turned, x.T)
    assert turned.strides == x.T.strides
    assert other.flags.f_contiguous
    assert isinstance(found["pair"], Pair)
    assert (found["pair"].x, found["pair"].y.shape, found["pair"].y.dtype) == (3, (0, 5), np.int8)
    for found_array, array in zip(found["types"], value["types"], strict=True):
        assert found_array.dtype == array.dtype
        np.testing.assert_array_equal(found_array, array)
    assert found["names"] == value["names"]
    assert list(found["texts"]) == ["a", None]
    assert value["rows"][0] is x
    assert x.flags.writeable


def test_an_array_that_is_there_twice_is_shared_once() -> None:
    x = np.zeros(1_000_000)
    found: Any = elastune.shared({"a": x, "b": [x, x]})
    (shared,) = open_maps()
    assert len(shared) < x.nbytes + 10_000
    assert found["a"][5] == found["b"][1][5] == 0.0


def test_the_same_data_are_shared_once_whatever_shares_them() -> None:
    first, second = elastune.shared(np.arange(100)), elastune.shared(np.arange(100))
    other = elastune.shared(np.arange(101))
    assert find_map(first) is find_map(second)
    assert find_map(first) is not find_map(other)
    assert len(mapped_files()) == 2


def test_tensors_are_shared_too() -> None:
    torch = pytest.importorskip("torch")
    value: dict[str, Any] = {
        "x": torch.arange(6.0).reshape(2, 3),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "mask": torch.tensor([True, False]),
        "scalar": torch.tensor(7),
        "turned": torch.arange(6).reshape(2, 3).T,
        "none": torch.empty((0, 4)),
    }
    found = elastune.shared(value)
    for name, tensor in value.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
    assert find_map(found["x"][:, 1:]) is not None
    assert found["x"].untyped_storage().nbytes() == 24


def test_a_tensor_that_the_cpu_cannot_share_is_refused_with_what_to_write() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(JobError, match=r"requires gradients; expected .* share tensor.detach\(\).cpu\(\)"):
        elastune.shared([torch.zeros(3, requires_grad=True)])


@pytest.mark.parametrize("value", ["x.npy", {"a": 1}, [np.array(["a", None], object)]])
def test_data_without_arrays_of_numbers_are_refused(value: Any) -> None:
    with pytest.raises(JobError, match=r"there is nothing to share in a .*; expected numpy arrays"):
        elastune.shared(value)


# Writing.


def test_arrays_are_read_only_and_the_error_says_how_to_copy() -> None:
    x = elastune.shared(np.zeros(3))
    with pytest.raises(ValueError, match="read-only") as caught:
        x -= 1.0
    explain_read_only(caught.value)
    assert caught.value.__notes__ == [
        "arrays of elastune.shared are read-only; copy what you change: array.copy(), tensor.clone()"
    ]
    other = ValueError("read-only file system of another library")
    del x, caught
    gc.collect()
    explain_read_only(other)
    assert not hasattr(other, "__notes__")


def test_a_tensor_that_was_written_to_is_found_and_named() -> None:
    torch = pytest.importorskip("torch")
    x, y = elastune.shared((torch.zeros(100, 64), torch.zeros(100_000)))
    refuse_writes()
    y.add_(1.0)
    with pytest.raises(JobError, match=r"^the float32 tensor of shape 100000 of elastune.shared was written"):
        refuse_writes()
    with pytest.raises(JobError, match="was written to"):
        dump(lambda: y)
    assert float(elastune.shared(np.zeros(5)).sum()) == float(x.sum()) == 0.0


def test_what_was_shared_is_freed_at_once_and_so_is_its_file() -> None:
    """Without the garbage collector."""
    gc.disable()
    try:
        data: Any = [np.zeros(1000), np.ones(1000)]
        original = weakref.ref(data[0])
        data = elastune.shared(data)
        loaded = elastune.shared(lambda: np.arange(1000))
        assert loaded()[7] == 7
        mapped = [weakref.ref(each) for each in open_maps()]
        assert len(mapped) == 2
        assert original() is None
        dump(data)
        data[0] = None
        assert len(open_maps()) == 2
        del data, loaded
        assert [each() for each in mapped] == [None, None]
        assert open_maps() == []
    finally:
        gc.enable()


# Functions.

calls: list[str] = []


def load(part: str = "all") -> dict[str, Any]:
    calls.append(part)
    return {"x": np.arange(10), "part": part}


@pytest.fixture
def _no_calls() -> None:
    calls.clear()


@pytest.mark.usefixtures("_no_calls")
def test_a_function_is_called_when_its_data_are_needed_and_once() -> None:
    data = elastune.shared(load)
    assert calls == []
    assert data()["x"][3] == data["x"][3] == 3
    assert (len(data), list(data), {**data}["part"]) == (2, ["x", "part"], "all")
    assert calls == ["all"]
    data()["x"] = None
    assert data()["x"] is not None
    assert repr(data) == "elastune.shared(load)"


@pytest.mark.usefixtures("_no_calls")
def test_functions_with_other_values_have_other_data() -> None:
    parts = [elastune.shared(functools.partial(load, part)) for part in ("train", "test")]
    made = [elastune.shared(lambda part=part: load(part)) for part in ("a", "b")]
    assert [each()["part"] for each in [*parts, *made]] == ["train", "test", "a", "b"]
    assert elastune.shared(functools.partial(load, "test"))()["part"] == "test"
    assert calls == ["train", "test", "a", "b"]


def test_a_decorated_function_has_its_name_and_text() -> None:
    @elastune.shared
    def digits() -> Any:
        """All of them."""
        return np.arange(10)

    assert isinstance(digits, SharedFunction)
    assert (digits.__name__, digits.__doc__) == ("digits", "All of them.")  # type: ignore[attr-defined]
    assert digits()[7] == 7
    assert elastune.shared(digits) is digits


def test_a_function_that_needs_arguments_is_refused() -> None:
    def read(path: str) -> Any:
        return np.load(path)

    with pytest.raises(JobError, match=r"without arguments \(missing .*'path'\); .*functools.partial\("):
        elastune.shared(read)


def test_a_function_that_loads_nothing_to_share_is_named() -> None:
    words = elastune.shared(lambda: ["a", "b"])
    with pytest.raises(JobError, match=r"nothing to share in what .*<lambda> returned"):
        words()


# What is sent.


def in_a_slot(folder: Path, data: bytes) -> Any:
    """What a process that trains makes of it."""
    folder.mkdir(exist_ok=True)
    code = "import pickle, sys; print(repr(pickle.loads(sys.stdin.buffer.read())()))"
    environment = {**os.environ, FOLDERS: os.pathsep.join(folders_after(folder))}
    return subprocess.run(
        [sys.executable, "-c", code], input=data, env=environment, check=True, capture_output=True
    ).stdout.decode()


def test_a_closure_over_shared_arrays_is_sent_as_names_and_finds_them_in_another_process(
    tmp_path: Path,
) -> None:
    x: Any = elastune.shared({"x": np.arange(1_000_000), "names": ["a"]})
    odd = x["x"][::-2]

    def train() -> Any:
        import re  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        maps = set(re.findall(r"\S*/elastune-shared-\S+", Path("/proc/self/maps").read_text()))
        return int(x["x"].sum()), odd[:2].tolist(), x["names"], x["x"].flags.writeable, maps

    data, needed = dump(train)
    assert len(data) < 10_000
    assert [str(path) for path in needed] == list(mapped_files())
    assert in_a_slot(tmp_path / "slots", data).strip() == repr(
        (499_999_500_000, [999_999, 999_997], ["a"], False, mapped_files())
    )
    assert list((tmp_path / "slots").iterdir()) == []


def test_a_shared_function_is_sent_without_its_data_and_loads_into_the_folder_of_the_slots(
    tmp_path: Path,
) -> None:
    @elastune.shared
    def data() -> Any:
        return np.arange(1000)

    train = lambda: int(data().sum())  # noqa: E731
    sent, needed = dump(train)
    assert needed == ()
    for _ in range(2):
        assert in_a_slot(tmp_path / "slots", sent).strip() == "499500"
    loaded = [path for path in (tmp_path / "slots").iterdir() if not path.name.startswith(".")]
    assert [path.name for path in loaded] == [data.name]
    data()  # the driver's own
    (tmp_path / "slots" / data.name).unlink()
    assert in_a_slot(tmp_path / "slots", sent).strip() == "499500"
    assert not (tmp_path / "slots" / data.name).exists()


def test_unpickled_here_it_is_the_same_memory() -> None:
    x = elastune.shared(np.arange(10))
    again = pickle.loads(dump(x)[0])
    assert again.__array_interface__["data"] == x.__array_interface__["data"]


def test_what_is_more_than_its_elements_is_sent_by_value() -> None:
    torch = pytest.importorskip("torch")
    x = elastune.shared(torch.tensor([1 + 2j, 3 - 4j]))
    for value in (x.conj(), x.conj().imag, x.view(torch.float32)[1::2]):
        assert torch.equal(pickle.loads(dump(value)[0]), value)
    table = elastune.shared(np.array([(1, 2.0)], [("a", int), ("b", float)])).view(np.recarray)
    assert pickle.loads(dump(table)[0]).b == 2.0


def test_shared_data_do_not_count_as_held_by_every_slot() -> None:
    x = np.zeros(1_000_000)
    y = elastune.shared(np.ones(1_000_000))
    data = elastune.shared(load)
    data()

    def train(config: object) -> object:
        return x, y, data

    assert [each.name for each in carried_by(train, by_value=True, least=10**6)] == ["x"]
    assert measure_bytes({"a": y[10:], "b": data}) == 0


# Leaving.

KILLED = """
import sys, time
import numpy as np
import elastune

x = elastune.shared(np.zeros(1000))
y = elastune.shared(lambda: np.ones(1000))
y()
print("shared", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_nothing_is_left_of_a_process_however_it_ends(tmp_path: Path, number: int | None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"shared\n"
        (folder,) = tmp_path.glob("elastune-shared-*")
        assert len([each for each in folder.iterdir() if not each.name.startswith(".")]) == 2
        if number is None:
            process.communicate()
        else:
            process.send_signal(number)
    wait_until(lambda: not folder.exists(), "the folder of a process that has ended is left")


def test_a_forked_process_leaves_the_data_of_its_parent_alone(tmp_path: Path) -> None:
    code = (
        "import gc, os, sys\nimport numpy as np\nimport elastune\n"
        "x = elastune.shared(np.arange(10))\n"
        "pid = os.fork()\n"
        "if not pid:\n    del x\n    gc.collect()\n    sys.exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "from elastune.training.shared_file import find_map\n"
        "print(find_map(x).path.is_file())\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout == b"True\n"
    wait_until(lambda: not list(tmp_path.glob("elastune-shared-*")))


def test_a_simulation_loads_and_sends_nothing(tmp_path: Path) -> None:
    data = elastune.shared(load)
    calls.clear()
    job = {
        "trainable": lambda config, iteration: {"score": config["x"] * iteration + (data is None)},
        "space": {"x": {"float": [0.0, 1.0]}},
        "metric": "score",
        "search": {"algorithm": "sha", "trials": 4, "max_iterations": 9},
        "profile": {"iteration": 1},
        "cluster": {"slots_per_node": 2, "max_nodes": 2, "price_per_hour": 1},
    }
    elastune.simulate(job)
    assert calls == []
    assert shared_data._own is None
