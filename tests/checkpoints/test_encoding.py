"""A state is the same after a round through bytes, and bytes that were touched are no state."""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastune.checkpoints.container import pack
from elastune.checkpoints.encoding import decode, decode_shared, encode, encode_parts
from elastune.errors import ExecutionError, JobError
from tests.checkpoints.states import same, states
from tests.thoroughness import examples
from tests.waiting import PATIENCE_S

STATE = {
    "model": {"w": torch.ones(3, 2)},
    "moments": [np.arange(4.0), 1, 0.5],
    7: ("text", b"bytes", None, True),
}


@given(state=states)
@examples(50, explore=300)
def test_a_state_comes_back_with_its_types_and_bits(state: Any) -> None:
    assert same(decode(encode(state)), state)


@pytest.mark.parametrize(
    "value",
    [10**6000, -(10**6000), 2**53 + 1, float("nan"), float("-inf"), -0.0, 5e-324, complex("nan+infj"),
     "", b"", {}, [], (), {0: "int", "0": "text"}, {-1: {}}, {10**6000: 1}, [[], [[]]], "\ud800",
     np.bytes_(b"a\0"), np.str_("a\0"), np.datetime64("NaT"), np.float16(1), np.zeros((3, 0)), np.zeros(()),
     np.zeros(2, ">f4"), np.zeros((2, 3)).T, np.zeros(2, [("x", "<f4"), ("y", "<i8", (2,))]),
     np.array(["a", "bc"]), torch.zeros(()), torch.zeros(0, 4), torch.arange(6).reshape(2, 3).T,
     torch.ones(3)[::2]],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_awkward_values_come_back(value: Any) -> None:
    for state in (value, {"nested": [value]}):
        assert same(decode(encode(state)), state)


def test_what_a_model_and_its_optimizer_save_can_be_loaded() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    state = decode(encode({"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    assert type(state["model"]) is dict
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    other.load_state_dict(state["model"])
    again = torch.optim.AdamW(other.parameters())
    again.load_state_dict(state["optimizer"])
    assert same(dict(other.state_dict()), dict(model.state_dict()))
    assert same(again.state_dict()["state"], optimizer.state_dict()["state"])


def test_conjugates_views_and_parameters_become_plain_tensors() -> None:
    values = torch.tensor([1 + 2j, 3 - 1j])
    decoded = decode(encode([values.conj(), values.conj().imag, torch.nn.Parameter(torch.ones(2))]))
    assert decoded[0].tolist() == [1 - 2j, 3 + 1j]
    assert decoded[1].tolist() == [-2.0, 1.0]
    assert type(decoded[2]) is torch.Tensor
    assert not decoded[2].requires_grad


def test_what_comes_back_can_be_written_to_and_is_a_copy() -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    data = encode([array, tensor])
    first, second = decode(data)
    first += 1
    second += 1
    assert array.sum() == tensor.sum() == 0
    assert same(decode(data), [array, tensor])


# What is refused.

Point = namedtuple("Point", "x y")


class Level(IntEnum):
    LOW = 1


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"model": {"head": [1, {2}]}}, "state['model']['head'][1] is a set; a state has dicts, lists,"),
        ({3: threading.Lock()}, "state[3] is a _thread.lock; a state has"),
        (
            {"a": {1.5: 1}},
            "state['a'] has the key 1.5, a float; expected keys that are texts or whole numbers",
        ),
        ({True: 1}, "state has the key True, a bool; expected keys"),
        (Counter("a"), "state is a collections.Counter; "),
        ([Point(1, 2)], "state[0] is a tests.checkpoints.test_encoding.Point; "),
        ([Level.LOW], "state[0] is a tests.checkpoints.test_encoding.Level; "),
        ([np.array([object()])], "state[0] is a numpy.ndarray of type object; "),
        ([np.ma.masked_array([1], [True])], "state[0] is a numpy.ma.MaskedArray"),
        ([torch.eye(2).to_sparse()], "state[0] is a torch.Tensor; "),
        ([torch.float32], "state[0] is a torch.dtype; "),
        ([print], "return those, or allow pickled objects with `pickles: true` in the job"),
        (CYCLE, "the state is nested too deep, or contains itself"),
    ],
)
def test_what_is_no_plain_data_is_refused_by_its_path(state: Any, message: str) -> None:
    with pytest.raises(JobError) as caught:
        encode(state)
    assert message in str(caught.value)


# Pickles.


def test_other_objects_are_pickled_if_that_is_allowed_on_both_sides() -> None:
    state = {"point": Point(1, 2), "w": np.ones(2), "ordered": OrderedDict(a=1)}
    data = encode(state, pickles=True)
    with pytest.raises(
        ExecutionError, match="has pickled objects, which run code when they are loaded; if you"
    ):
        decode(data)
    decoded = decode(data, pickles=True)
    assert decoded["point"] == Point(1, 2)
    assert type(decoded["point"]) is Point
    assert encode({"w": np.ones(2)}, pickles=True) == encode({"w": np.ones(2)})
    with pytest.raises(JobError, match=r"state\['f'\] is a function, which cannot be pickled"):
        encode({"f": lambda: 1}, pickles=True)


def test_an_object_whose_code_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode([Point(1, 2)], pickles=True)
    monkeypatch.delattr(sys.modules[__name__], "Point")
    with pytest.raises(ExecutionError, match=r"cannot be unpickled: AttributeError.*must be importable"):
        decode(data, pickles=True)


# Damage.


def test_every_byte_counts() -> None:
    data = encode(STATE, pickles=True)
    for position in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            touched = bytearray(data)
            touched[position] ^= change
            with pytest.raises(ExecutionError):
                decode(bytes(touched), pickles=True)


def test_every_cut_is_told() -> None:
    data = encode(STATE)
    for length in range(len(data)):
        with pytest.raises(ExecutionError, match=r"is cut off|not an Elastune checkpoint"):
            decode(data[:length])
    with pytest.raises(ExecutionError, match="damaged"):
        decode(data + b"\0")


@given(junk=st.binary(max_size=200))
def test_foreign_data_is_told(junk: bytes) -> None:
    with pytest.raises(ExecutionError, match="not an Elastune checkpoint"):
        decode(b"PK" + junk)
    with pytest.raises(ExecutionError):
        decode(b"ELASTUNE" + junk)


WORDS = ["dict", "list", "array", "scalar", "tensor", "text", "bytes", "int", "float", "pickle", "complex"]
plain = st.sampled_from(["<f4", "'|O'", "'<f4'", "float32", "dict", "nn", "0x1"])
nodes = st.recursive(
    st.none() | st.integers(-2, 3) | plain,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(st.sampled_from(WORDS), inner, inner, inner).map(list)
    ),
    max_leaves=8,
)


@given(tree=nodes)
@examples(120, explore=300)
def test_a_forged_description_is_an_error_or_plain_data(tree: Any) -> None:
    with contextlib.suppress(ExecutionError):
        decode(b"".join(pack(tree, [b"", b"1234"]).sealed))


def test_a_newer_format_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastune.checkpoints.container.VERSION", 2)
    data = encode(STATE)
    monkeypatch.undo()
    with pytest.raises(ExecutionError, match="has version 2 of the format; this Elastune reads version 1"):
        decode(data)


def test_the_description_is_strict_json() -> None:
    data = encode([float("nan"), 2**60, "é"])
    text = data[32 : data.rindex(b"}") + 1]
    content = json.loads(text, parse_constant=pytest.fail)
    assert content["tree"] == ["list", ["float", "nan"], ["int", "0x1000000000000000"], "é"]


def test_tensors_without_torch_are_told() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from elastune.checkpoints import decode\n"
        "data = sys.stdin.buffer.read()\n"
        "try: decode(data)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=encode(torch.ones(1)),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert (
        done.stdout.decode().strip()
        == "ExecutionError the checkpoint has tensors; to read them: pip install torch"
    )


@pytest.fixture
def _no_collection() -> Iterator[None]:
    """Python looks for circles of objects only after hundreds of new ones."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
def test_the_memory_of_a_model_is_free_as_soon_as_its_bytes_are_not_needed() -> None:
    weights = bytearray(8)
    state = {"w": np.frombuffer(weights), "t": torch.frombuffer(weights, dtype=torch.uint8), "n": [1, 2]}
    packed = encode_parts(state)
    encoded = bytearray(b"".join(packed.unsealed))
    del state, packed
    weights.append(0)  # refused while anything refers to its memory

    decoded = decode_shared(memoryview(encoded))
    assert same(decoded["w"], np.zeros(1))
    del decoded
    encoded.append(0)

    sealed = bytearray(encode({"w": np.zeros(1)}))
    decode(memoryview(sealed))
    sealed.append(0)
