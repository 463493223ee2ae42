"""Importing what the user wrote, a function or a class, by its name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType

from elastune.errors import JobError
from elastune.wording import did_you_mean, several


def load(reference: str) -> Callable[..., object]:
    """What `path/to/file.py:name` or `package.module:name` means: a function or a class."""
    home, _, name = reference.rpartition(":")
    if home.endswith(".py"):
        module = _imported(home, lambda: _from_file(Path(home)))
    else:
        _make_importable(Path.cwd())
        module = _imported(home, lambda: importlib.import_module(home))
    try:
        found: object = reduce(getattr, name.split("."), module)
    except AttributeError:
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        hint = did_you_mean(name, public)
        raise JobError(f"{home}: there is no {name!r}; callable there: {several(public)}{hint}") from None
    if not callable(found):
        raise JobError(
            f"{reference}: this is {type(found).__name__} and cannot be called; "
            "expected a function or a class"
        )
    return found


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise JobError(f"{path}: there is no such file; expected the Python file of the trainable")
    # As if the file were run: what lies beside it can be imported.
    _make_importable(path.resolve().parent)
    name = f"elastune_trainable_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise JobError(f"{path}: cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look a module up by its name, also while it is being executed.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _imported(home: str, execute: Callable[[], ModuleType]) -> ModuleType:
    try:
        return execute()
    except JobError:
        raise
    except Exception as error:
        raise JobError(f"{home}: importing it failed with {type(error).__name__}: {error}") from error


def _make_importable(folder: Path) -> None:
    """At the end of the path, so that a file of the user cannot shadow an installed package."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
