"""The user's function that reads a file, Cerebro's input_fn: checked here, found again in the workers."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from elastune.data.dataset import Dataset
from elastune.errors import JobError
from elastune.training import load
from elastune.wording import seen

Reader: TypeAlias = Callable[[str], Any]

_EXPECTED = "a function f(path), or where it is: 'file.py:function' or 'package.module:function'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """How it travels: by name, or as bytes."""

    reference: str | None = None
    pickled: bytes | None = None


def pack(reader: str | Reader | None) -> Packed:
    """A mistake in a name is told now."""
    if reader is None:
        return Packed()
    if isinstance(reader, str):
        home, colon, name = reader.rpartition(":")
        if not (colon and home and name):
            raise JobError(f"reader is {seen(reader)}; expected {_EXPECTED}")
        reference = f"{Path(home).expanduser().absolute()}:{name}" if home.endswith(".py") else reader
        load(reference)
        return Packed(reference=reference)
    if not callable(reader):
        raise JobError(f"reader is {seen(reader)}; expected {_EXPECTED}")
    name = getattr(reader, "__qualname__", type(reader).__qualname__)
    return Packed(reference=f"{getattr(reader, '__module__', '')}:{name}", pickled=_pickle(reader))


def open_reader(dataset: Dataset) -> Reader | None:
    """In the process that reads."""
    if dataset.reader_pickled is not None:
        reader: Reader = pickle.loads(dataset.reader_pickled)  # noqa: S301  from our own driver
        return reader
    return None if dataset.reader is None else load(dataset.reader)


def call(reader: Reader, path: str) -> Any:
    """Its errors are the user's: they stay what they are, and tell which file it was."""
    try:
        data = reader(path)
    except Exception as error:
        error.add_note(f"in the reader of the data, with {os.fspath(path)}")
        raise
    if data is None:
        raise JobError(f"{path}: the reader returned nothing; expected the data of this file")
    return data


def _pickle(reader: Reader) -> bytes:
    try:
        import cloudpickle  # noqa: PLC0415  comes with Ray; takes functions of scripts and notebooks, too
    except ImportError:
        dump: Callable[[object], bytes] = pickle.dumps
    else:
        dump = cloudpickle.dumps
    try:
        return dump(reader)
    except Exception as error:
        raise JobError(
            f"the reader cannot be sent to other processes ({type(error).__name__}: {error}); "
            "expected a function of a file: 'file.py:function'"
        ) from error
