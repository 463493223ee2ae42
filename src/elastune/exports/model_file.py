"""The state of a trial as a file that other programs open: `.pt`, `.safetensors` or `.pkl`.

A checkpoint has a format of its own, with a checksum and without code; torch cannot read it. `.pt` is for
`torch.load(weights_only=True)`: arrays of numbers become tensors. Safetensors has only tensors with names:
the keys of nested dicts and lists are joined with dots; what is not a tensor goes to its metadata as JSON.
"""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elastune.errors import JobError
from elastune.exports.files import require
from elastune.training.trainable import State
from elastune.wording import either, plural, seen, several

METADATA = "elastune.state"
"""The key of safetensors' metadata with the values that are not tensors."""
_NUMBERS = "?biufc"
_log = logging.getLogger("elastune")


def is_model_file(path: str | Path) -> bool:
    return Path(path).suffix in WRITERS_OF_MODELS


def write_model(state: State, path: Path, *, about: Mapping[str, str], force: bool = False) -> Path:
    """`about` goes to the metadata, if there is some. An existing file is replaced only with `force`."""
    if path.suffix not in WRITERS_OF_MODELS:
        raise JobError(f"{path} has the ending {path.suffix!r}; expected {either(WRITERS_OF_MODELS)}")
    if path.exists() and not force:
        raise JobError(f"{path} exists already; choose another name, or pass --force (force=True)")
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        notes = list(WRITERS_OF_MODELS[path.suffix](state, part, about))
        part.replace(path)
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror}; choose another with --to") from error
    finally:
        part.unlink(missing_ok=True)
    for note in notes:
        _log.warning("%s: %s", path.name, note)
    return path


def part_of(state: State, part: str | None) -> Any:
    """The value at a path of keys, such as `model`; None: all."""
    value: Any = state
    for key in part.split(".") if part else ():
        keys = {str(each): each for each in value} if isinstance(value, dict) else {}
        if key not in keys:
            there = several(map(str, keys)) if keys else f"no keys, it is {seen(value)}"
            raise JobError(f"part is {part!r}, but the state has no {key!r} there; it has {there}")
        value = value[keys[key]]
    return value


def _write_torch(state: State, path: Path, _about: Mapping[str, str]) -> Iterator[str]:
    require("torch", extra="torch", what="a .pt file")
    import torch  # noqa: PLC0415

    converted = _Tensors()
    torch.save(converted.convert(state, "state"), path)
    if converted.count:
        arrays = plural(converted.count, "array")
        yield f"{arrays} became tensors, so that torch.load(weights_only=True) opens it"


class _Tensors:
    """Converts arrays to tensors and numpy's scalars to plain ones; `count` arrays were converted."""

    def __init__(self) -> None:
        self.count = 0

    def convert(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            return {key: self.convert(each, f"{where}[{key!r}]") for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.convert(each, f"{where}[{n}]") for n, each in enumerate(value))
        if isinstance(value, np.str_ | np.bytes_):
            return value.item()
        if not isinstance(value, np.ndarray | np.generic):
            return value
        tensor = as_tensor(value)
        if tensor is None:
            raise JobError(f"{where} is an array of {value.dtype}, not of numbers; export to a .pkl file")
        self.count += isinstance(value, np.ndarray)
        return tensor if isinstance(value, np.ndarray) else value.item()


def as_tensor(value: Any) -> Any:
    """A tensor as it is, an array of numbers as a tensor; None: anything else."""
    import torch  # noqa: PLC0415

    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in _NUMBERS:
        return None
    try:
        return torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("=")))
    except TypeError:  # of 128 bits, say
        return None


def _write_safetensors(state: State, path: Path, about: Mapping[str, str]) -> Iterator[str]:
    require("torch", extra="torch", what="a .safetensors file")
    require("safetensors", extra="safetensors", what="a .safetensors file")
    from safetensors.torch import save_file  # noqa: PLC0415

    tensors: dict[str, Any] = {}
    others: dict[str, object] = {}
    left_out: list[str] = []
    for name, value in _leaves(state, ""):
        if name in tensors or name in others:
            raise JobError(f"two values of the state would have the name {name!r}; export to a .pt file")
        tensor = None if isinstance(value, np.generic) else as_tensor(value)
        plain = value.item() if isinstance(value, np.generic) else value
        if tensor is not None:
            tensors[name] = tensor.contiguous()
        elif plain is None or isinstance(plain, bool | int | float | str | dict | list):
            others[name] = plain
        else:
            left_out.append(f"{name} ({type(value).__name__})")
    if not tensors:
        raise JobError("the state has no tensors and no arrays; export to a .pkl file")
    metadata = {**about, **({METADATA: json.dumps(others)} if others else {})}
    save_file(tensors, path, metadata=metadata)
    if others:
        values = plural(len(others), "value")
        yield f"{values} that are not tensors are in its metadata, as JSON in {METADATA!r}"
    if left_out:
        yield f"left out, because safetensors cannot hold them: {several(left_out)}"


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The values of nested dicts and lists, with the keys that lead there; an empty one is a value itself."""
    items: list[tuple[object, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list | tuple):
        items = list(enumerate(value))
    if not items:
        yield name, list(value) if isinstance(value, tuple) else value
    for key, each in items:
        yield from _leaves(each, f"{name}.{key}" if name else str(key))


def _write_pickle(state: State, path: Path, _about: Mapping[str, str]) -> Iterator[str]:
    try:
        path.write_bytes(pickle.dumps(state))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise JobError(f"the state cannot be pickled: {error}") from error
    yield "a pickled file runs code when it is loaded: share it only with those who trust you"


WRITERS_OF_MODELS: dict[str, Callable[[State, Path, Mapping[str, str]], Iterator[str]]] = {
    ".pt": _write_torch,
    ".pth": _write_torch,
    ".safetensors": _write_safetensors,
    ".pkl": _write_pickle,
}
