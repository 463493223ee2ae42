"""From a state to bytes and back. Only pickled objects, if allowed, can run code.

Values that JSON has are written as they are; all others become lists that begin with a word:

    ["dict", [key, value], ...]  ["list", value, ...]  ["tuple", value, ...]
    ["int", "-0xff"]  ["float", "nan"]  ["complex", real, imaginary]  ["text", buffer]  ["bytes", buffer]
    ["array", type, shape, buffer]  ["scalar", type, buffer]  ["numpy text", buffer]  ["numpy bytes", buffer]
    ["tensor", type, shape, buffer]  ["pickle", buffer]

where `buffer` is the number of a buffer, and a value of a dict or sequence is written by the same rules.
"""

from __future__ import annotations

import math
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from elastune.checkpoints.container import Buffer, Packed, dtype_to_text, pack, text_to_dtype, unpack
from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.training.trainable import State
from elastune.wording import seen

_SAFE_INT = 2**53
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, SyntaxError, RecursionError)


def encode(state: State, *, pickles: bool = False) -> bytes:
    """The state as bytes that can be read without running code.

    Objects that are not listed in `elastune.checkpoints.encoding` are refused, or pickled with `pickles`.
    """
    return b"".join(encode_parts(state, pickles=pickles).sealed)


def encode_parts(state: State, *, pickles: bool = False) -> Packed:
    """The same without a copy: the parts are views of the state, which must not change before their use."""
    writer = _Writer(pickles=pickles)
    try:
        return pack(writer.write(state), writer.buffers)
    except RecursionError:
        error = "the state is nested too deep, or contains itself; expected some levels of dicts"
        raise JobError(error) from None
    finally:
        writer.release()


class _Writer:
    def __init__(self, *, pickles: bool) -> None:
        self.buffers: list[Buffer] = []
        self._pickles = pickles
        self._path: list[object] = []
        self._rules: dict[type, Callable[[Any], object]] = {
            type(None): lambda value: value,
            bool: lambda value: value,
            str: self._text,
            int: _int,
            float: _float,
            complex: lambda value: ["complex", _float(value.real), _float(value.imag)],
            bytes: lambda value: ["bytes", self._buffer(value)],
            dict: self._dict,
            OrderedDict: self._dict,  # what torch's state_dict() gives
            list: lambda value: ["list", *self._inside(enumerate(value))],
            tuple: lambda value: ["tuple", *self._inside(enumerate(value))],
            np.ndarray: self._array,
            np.memmap: self._array,
            np.str_: lambda value: ["numpy text", self._buffer(_utf8(value))],
            np.bytes_: lambda value: ["numpy bytes", self._buffer(bytes(value))],
        }
        if (torch := sys.modules.get("torch")) is not None:
            self._rules |= dict.fromkeys((torch.Tensor, torch.nn.Parameter), self._tensor)

    def release(self) -> None:
        """Its rules refer to it: else the memory of the state, such as a whole model, would be held until
        Python looks for circles, which is after hundreds of other objects."""
        self._rules.clear()
        self.buffers = []

    def write(self, value: Any) -> object:
        other = self._scalar if isinstance(value, np.generic) else self._other
        return self._rules.get(type(value), other)(value)

    def _inside(self, items: Iterable[tuple[object, Any]]) -> Iterator[object]:
        """One after the other; when one is refused, the path leads to it."""
        self._path.append(None)
        for key, value in items:
            self._path[-1] = key
            yield self.write(value)
        self._path.pop()

    def _where(self) -> str:
        return "state" + "".join(f"[{seen(key)}]" for key in self._path)

    def _buffer(self, data: Buffer) -> int:
        self.buffers.append(data)
        return len(self.buffers) - 1

    def _dict(self, value: dict[Any, Any]) -> object:
        for key in value:
            if type(key) not in (str, int):
                found = f"{self._where()} has the key {seen(key)}, a {_name_of(key)}"
                raise JobError(f"{found}; expected keys that are texts or whole numbers")
        keys = [self.write(key) for key in value]
        return ["dict", *map(list, zip(keys, self._inside(value.items()), strict=True))]

    def _text(self, value: str) -> object:
        """JSON would join two halves of a character that stand side by side."""
        if value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value):
            return value
        return ["text", self._buffer(_utf8(value))]

    def _array(self, value: Any) -> object:
        if (dtype := dtype_to_text(value.dtype)) is None:
            return self._other(value)
        return ["array", dtype, list(value.shape), self._buffer(_raw(value))]

    def _scalar(self, value: Any) -> object:
        array = np.asarray(value)
        dtype = dtype_to_text(array.dtype)
        return self._other(value) if dtype is None else ["scalar", dtype, self._buffer(_raw(array))]

    def _tensor(self, value: Any) -> object:
        torch = sys.modules["torch"]
        if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
            return self._other(value)
        plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        raw = plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b""
        dtype = str(plain.dtype).removeprefix("torch.")
        return ["tensor", dtype, list(plain.shape), self._buffer(raw)]

    def _other(self, value: Any) -> object:
        described = f"{self._where()} is a {_name_of(value)}"
        if isinstance(value, np.ndarray | np.generic):
            described += f" of type {value.dtype}"
        if not self._pickles:
            raise JobError(
                f"{described}; a state has dicts, lists, tuples, numbers, texts, bytes, arrays and tensors: "
                "return those, or allow pickled objects with `pickles: true` in the job"
            )
        try:
            return ["pickle", self._buffer(pickle.dumps(value, protocol=5))]
        except Exception as error:
            raise JobError(f"{described}, which cannot be pickled: {error}") from error


def _int(value: int) -> object:
    """Python refuses to write very long numbers in decimal, and other JSON readers lose digits."""
    return value if abs(value) <= _SAFE_INT else ["int", hex(value)]


def _float(value: float) -> object:
    return value if math.isfinite(value) else ["float", repr(value)]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _raw(array: Any) -> Buffer:
    whole = np.asarray(array, order="C")
    return whole.reshape(-1).view(np.uint8).data if whole.nbytes else b""


def _name_of(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def decode(data: Buffer, *, pickles: bool = False) -> State:
    """Arrays and tensors are new and writable; tensors are on the CPU.

    With `pickles`, pickled objects are loaded: only for data that you trust.
    """
    tree, buffers = unpack(data)
    return _read(_Reader(buffers, pickles=pickles), tree)


def decode_shared(data: memoryview, *, pickles: bool = False) -> State:
    """From unsealed bytes in memory that is writable and this process's own; arrays and tensors lie in it."""
    tree, buffers = unpack(data, is_sealed=False)
    return _read(_SharedReader(buffers, pickles=pickles), tree)


def _read(reader: _Reader, tree: Any) -> State:
    try:
        return reader.read(tree)
    except ElastuneError:
        raise
    except _MALFORMED as error:
        raise ExecutionError(f"the checkpoint's description cannot be read: {error}") from error
    finally:
        reader.release()


class _Reader:
    def __init__(self, buffers: list[memoryview], *, pickles: bool) -> None:
        self._buffers = buffers
        self._pickles = pickles
        self._rules: dict[str, Callable[..., Any]] = {
            "dict": lambda *pairs: {self.read(key): self.read(value) for key, value in pairs},
            "list": lambda *values: [self.read(value) for value in values],
            "tuple": lambda *values: tuple(self.read(value) for value in values),
            "int": lambda text: int(text, 16),
            "float": float,
            "complex": lambda real, imaginary: complex(self.read(real), self.read(imaginary)),
            "text": self._text,
            "bytes": self._bytes,
            "numpy text": lambda number: np.str_(self._text(number)),
            "numpy bytes": lambda number: np.bytes_(self._bytes(number)),
            "array": self._array,
            "scalar": lambda dtype, number: self._array(dtype, (), number)[()],
            "tensor": self._tensor,
            "pickle": self._pickle,
        }

    def release(self) -> None:
        """As that of the writer."""
        self._rules.clear()
        self._buffers = []

    def read(self, node: Any) -> Any:
        if not isinstance(node, list):
            return node
        word, *arguments = node
        return self._rules[word](*arguments)

    def _bytes(self, number: int) -> bytes:
        return bytes(self._buffers[number])

    def _text(self, number: int) -> str:
        return self._bytes(number).decode("utf-8", "surrogatepass")

    def _array(self, text: str, shape: list[int] | tuple[int, ...], number: int) -> Any:
        array = np.empty(shape, text_to_dtype(text))
        raw = array.reshape(-1).view(np.uint8) if array.nbytes else array
        _fill(raw, array.nbytes, self._buffers[number])
        return array

    def _tensor(self, name: str, shape: list[int], number: int) -> Any:
        try:
            import torch  # noqa: PLC0415  only for tensors
        except ImportError:
            raise ExecutionError("the checkpoint has tensors; to read them: pip install torch") from None
        dtype = getattr(torch, name)
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"there is no tensor type {name!r}")
        tensor = torch.empty(shape, dtype=dtype)
        raw = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else None
        _fill(raw, tensor.numel() * tensor.element_size(), self._buffers[number])
        return tensor

    def _pickle(self, number: int) -> Any:
        if not self._pickles:
            raise ExecutionError(
                "the checkpoint has pickled objects, which run code when they are loaded; if you trust it, "
                "set `pickles: true` in the job, or load_checkpoint(..., pickles=True)"
            )
        try:
            return pickle.loads(self._buffers[number])  # noqa: S301  allowed by the user
        except Exception as error:
            raise ExecutionError(
                f"an object of the checkpoint cannot be unpickled: {type(error).__name__}: {error}; the "
                "code that saved it must be importable, in versions that fit"
            ) from error


class _SharedReader(_Reader):
    """Copies only what is empty, which has no address, and tensors in memory that is not writable."""

    def _array(self, text: str, shape: list[int] | tuple[int, ...], number: int) -> Any:
        buffer = self._buffers[number]
        if not len(buffer):
            return super()._array(text, shape, number)
        return np.frombuffer(buffer, text_to_dtype(text)).reshape(shape)

    def _tensor(self, name: str, shape: list[int], number: int) -> Any:
        torch, buffer = sys.modules.get("torch"), self._buffers[number]
        if torch is None or not len(buffer) or buffer.readonly:
            return super()._tensor(name, shape, number)
        raw = torch.frombuffer(self._buffers[number], dtype=torch.uint8)
        return raw.view(getattr(torch, name)).reshape(shape)


def _fill(raw: Any, size: int, buffer: memoryview) -> None:
    if len(buffer) != size:
        raise ValueError(f"a buffer has {len(buffer)} bytes; expected {size}")
    if size:
        raw[:] = np.frombuffer(buffer, np.uint8)
