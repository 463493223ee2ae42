"""From bytes to a state, by the rules in `encoding`. Only pickled objects, if allowed, can run code."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from elastune.checkpoints.container import Buffer, unpack
from elastune.checkpoints.dtypes import text_to_dtype
from elastune.errors import ElastuneError, ExecutionError
from elastune.training import State


def decode(data: Buffer, *, pickles: bool = False) -> State:
    """Arrays and tensors are new ones that may be written to; tensors are on the CPU.

    With `pickles`, objects that were pickled are loaded: only for data that you trust.
    """
    tree, buffers = unpack(data)
    try:
        return _Reader(buffers, pickles=pickles).read(tree)
    except ElastuneError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        SyntaxError,
        RecursionError,
    ) as error:
        raise ExecutionError(f"the checkpoint's description cannot be read: {error}") from error


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
        dtype = text_to_dtype(text)
        array = np.empty(shape, dtype)
        _fill(
            array.reshape(-1).view(np.uint8) if array.nbytes else array, array.nbytes, self._buffers[number]
        )
        return array

    def _tensor(self, name: str, shape: list[int], number: int) -> Any:
        try:
            import torch  # noqa: PLC0415  only for those who have tensors
        except ImportError:
            raise ExecutionError("the checkpoint has tensors; to read them: pip install torch") from None
        dtype = getattr(torch, name)
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"there is no type {name!r} of tensors")
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


def _fill(raw: Any, size: int, buffer: memoryview) -> None:
    if len(buffer) != size:
        raise ValueError(f"a buffer has {len(buffer)} bytes where {size} are due")
    if size:
        raw[:] = np.frombuffer(buffer, np.uint8)
