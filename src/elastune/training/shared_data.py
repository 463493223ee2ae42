"""Data that the slots of a node share: `elastune.shared`.

A process knows the folders of shared data from its environment: slot processes write into the folder of their
run on this machine, and find there what the driver shared, too. Any other process, such as the driver, has a
folder of its own, which goes with it. Arrays and tensors that are shared already are pickled as a name and a
place; `dump` says which names a pickle needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import inspect
import io
import logging
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np

from elastune.errors import ExecutionError, JobError
from elastune.temporary_folder import TemporaryFolder
from elastune.training.shared_file import PackedValue, SharedMap, find_map, is_plain, open_maps
from elastune.wording import format_bytes, several

T = TypeVar("T")

FOLDERS = "ELASTUNE_SHARED"
"""Environment variable: the folders of shared data; new ones go into the first."""
LARGE_BYTES = 100 * 10**6
_PREFIX = "elastune-shared-"
_COPY = "copy what you change: array.copy(), tensor.clone()"

_log = logging.getLogger("elastune")


@overload
def shared(data: Callable[[], T]) -> SharedFunction[T]: ...
@overload
def shared(data: T) -> T: ...
def shared(data: Any) -> Any:
    """One copy of arrays and tensors for all slots of a node.

    `data` is an array, a tensor, or dicts, lists and tuples of them, and of other values. The result is the
    same, with arrays and tensors that all processes of a machine read from the same memory. They are not sent
    with the trainable, and are read-only: copy what you change (`x.copy()`, `x.clone()`).

    Or `data` is a function without arguments that loads such a value, also as a decorator. It is called once
    per node, by the slot that needs it first, and not by the driver. The result is called instead of it, or
    indexed like what it returns.

    >>> x, y = elastune.shared((x, y))

    >>> @elastune.shared
    ... def images():
    ...     return {"x": np.load("x.npy"), "y": np.load("y.npy")}
    >>> images()["x"]
    """
    if isinstance(data, SharedFunction):
        return data
    if inspect.isroutine(data) or isinstance(data, functools.partial):
        _check_function(data)
        return SharedFunction(data)
    packed = _packed(data, f"a {type(data).__name__}")
    return _open(packed.name, lambda: packed).load()


class SharedFunction(Generic[T]):
    """A function whose result is loaded once per node."""

    def __init__(self, function: Callable[[], T], name: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = name
        self._map: SharedMap | None = None
        self._value: T | None = None

    def __call__(self) -> T:
        """What the function returned, in new dicts and lists."""
        loaded: T = self._open().load()
        return loaded

    def __getitem__(self, key: Any) -> Any:
        return self._loaded()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loaded())

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._loaded())

    def keys(self) -> Any:
        return self._loaded().keys()

    def __repr__(self) -> str:
        return f"elastune.shared({self._title})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedFunction, (self._function, self.name)

    @property
    def name(self) -> str:
        """Of its data: the same in all processes for the same code with the same values."""
        if self._name is None:
            try:
                self._name = hashlib.sha256(dump(self._function)[0]).hexdigest()[:32]
            except Exception as error:
                raise JobError(
                    f"{self._title} cannot be sent to the workers: {error}; expected a function without "
                    "open files, locks or connections: open them in it"
                ) from error
        return self._name

    @property
    def _title(self) -> str:
        return str(getattr(self._function, "__qualname__", self._function))

    def _loaded(self) -> Any:
        if self._value is None:
            self._value = self()
        return self._value

    def _open(self) -> SharedMap:
        if self._map is None:
            self._map = _open(self.name, lambda: _packed(self._function(), f"what {self._title} returned"))
        return self._map


def _check_function(function: Callable[..., object]) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        name = getattr(function, "__qualname__", function)
        raise JobError(
            f"elastune.shared({name}): it cannot be called without arguments ({error}); expected a function "
            f"that loads the data, such as functools.partial({name}, ...)"
        ) from None
    except ValueError:
        pass  # functions written in C may have no signature


def _packed(value: object, what: str) -> PackedValue:
    packed = PackedValue(value)
    if not packed.parts:
        raise JobError(
            f"there is nothing to share in {what}; expected numpy arrays of numbers or torch tensors, in "
            "dicts, lists and tuples, or a function without arguments that returns them"
        )
    if packed.rest_bytes >= LARGE_BYTES:
        _log.warning(
            "%s of %s are neither arrays of numbers nor tensors: every slot holds a copy of its own",
            format_bytes(packed.rest_bytes),
            what,
        )
    return packed


# Where shared data are.

_own: TemporaryFolder | None = None
_files: set[str] = set()
"""Those that this process wrote into a folder of its own."""


def folders_after(first: Path) -> tuple[str, ...]:
    """For processes that this one starts: `first`, which exists, for what they load; then what this process
    has shared."""
    return (str(first), *map(str, _folders()))


def use_folders(folders: Sequence[str]) -> None:
    """In a process that trains, and in those that it starts."""
    os.environ[FOLDERS] = os.pathsep.join(folders)


def _folders() -> list[Path]:
    given = [Path(folder) for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder]
    return given or ([] if _own is None else [_own.path])


def _find(name: str) -> Path | None:
    return next((path for folder in _folders() if (path := folder / name).is_file()), None)


def _open(name: str, make: Callable[[], PackedValue]) -> SharedMap:
    """The data of this name; made by this process if no other one has done it, or does it now."""
    if (found := _find(name)) is not None:
        return SharedMap.open(found)
    is_own = not os.environ.get(FOLDERS)
    folder = _own_folder() if is_own else _folders()[0]
    path = folder / name
    try:
        with _locked(folder / f".{name}.lock"):
            if not path.is_file():
                make().write(path)
        opened = SharedMap.open(path)
        if is_own:
            _files.add(name)
            weakref.finalize(opened, _remove, path, os.getpid())
    finally:
        _close_if_empty()
    return opened


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock of a process that is killed is free again."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _own_folder() -> Path:
    global _own  # noqa: PLW0603  one per process
    if _own is None:
        _own = TemporaryFolder(_PREFIX)
    return _own.path


def _remove(path: Path, owner: int) -> None:
    """No array of it is left in the process that made it. Those that have mapped it keep what they have."""
    if os.getpid() == owner:  # otherwise this one was forked
        path.unlink(missing_ok=True)
        _files.discard(path.name)
        _close_if_empty()


def _close_if_empty() -> None:
    global _own  # noqa: PLW0603
    if _own is not None and not _files:
        _own.close()
        _own = None


# What is sent to the workers.


def dump(value: object) -> tuple[bytes, tuple[Path, ...]]:
    """A pickle, by value where workers cannot import, and the files of shared data that it needs."""
    import cloudpickle  # noqa: PLC0415  needed by real runs only

    needed: dict[Path, None] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, each: Any) -> Any:
            found = find_map(each) if is_plain(each) else None
            if found is None:
                return super().reducer_override(each)
            if found.path not in needed:
                refuse_writes([found])
            needed[found.path] = None
            return _as_place(each, found)

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue(), tuple(needed)


def _as_place(value: Any, found: SharedMap) -> tuple[Any, ...]:
    if isinstance(value, np.ndarray):
        offset = value.__array_interface__["data"][0] - found.address
        return _array_at, (found.path.name, value.dtype, value.shape, offset, value.strides)
    dtype, offset = str(value.dtype).removeprefix("torch."), value.data_ptr() - found.address
    return _tensor_at, (found.path.name, dtype, tuple(value.shape), offset, value.stride())


def _array_at(name: str, dtype: Any, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> Any:
    return _known(name).array(dtype, shape, offset, strides=strides)


def _tensor_at(name: str, dtype: str, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> Any:
    return _known(name).tensor(dtype, shape, offset, strides)


def _known(name: str) -> SharedMap:
    path = _find(name)
    if path is None:
        raise ExecutionError(f"shared data {name} are in none of {several(map(str, _folders()))}")
    return SharedMap.open(path)


# Writing into shared data.


def refuse_writes(maps: Sequence[SharedMap] | None = None) -> None:
    """Raise if this process has changed shared data: no other process would see that."""
    changed = [str(part) for each in (open_maps() if maps is None else maps) for part in each.written()]
    if changed:
        raise JobError(
            f"{several(changed)} of elastune.shared was written to, which no other process sees; {_COPY}"
        )


def explain_read_only(error: BaseException) -> None:
    """Say how to copy, if the error is numpy's for writing into a read-only array."""
    if isinstance(error, ValueError) and "read-only" in str(error) and open_maps():
        error.add_note(f"arrays of elastune.shared are read-only; {_COPY}")


def shared_bytes() -> int:
    """How much of the memory of this process is shared data."""
    return sum(len(each) for each in open_maps())
