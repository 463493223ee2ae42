"""What a Ray Tune function asks of its session: `report`, `get_checkpoint`, `get_context`.

There is one session per process, as in Ray Tune. Functions that call `ray.tune` itself find it there too,
because it is put where `ray.tune` looks for its own. A checkpoint is a folder; its files are a state.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastune.adapters.suspended import RandomState, SuspendedCall
from elastune.errors import JobError
from elastune.wording import seen

# Ray's own module of sessions: `ray.tune.report` and `ray.train.report` both ask it.
_RAYS = "ray.train._internal.session"
_OUTSIDE = "is for a function that a Tuner trains; call it there, not in the script itself"

Files = dict[str, bytes | None]
"""The files of a folder by relative path; None: a folder without files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One report: its metrics, and the folder of its checkpoint."""

    metrics: Mapping[str, Any]
    folder: Path | None = None


class TuneSession:
    """Has the attributes that `ray.tune` reads of its own session."""

    # Of Ray Train, whose workers have ranks; a trial of Ray Tune has none.
    world_rank = local_rank = node_rank = local_world_size = world_size = dataset_shard = None
    storage = metadata = run_id = None

    def __init__(self, *, name: str, trial: int, folder: Path, resources: Mapping[str, float]) -> None:
        self.experiment_name = name
        self.trial_id = f"{trial:05d}"
        self.trial_name = f"{name}_{trial:05d}"
        self.trial_dir = str(folder)
        self.trial_resources = dict(resources)
        self.call: SuspendedCall[Reported] | None = None
        self.start_folder: Path | None = None
        self.start_random: RandomState | None = None

    def __bool__(self) -> bool:
        return True

    def report(self, metrics: Mapping[str, Any], checkpoint: Any = None, **unknown: Any) -> None:
        """`checkpoint` is a `Checkpoint` of a local folder."""
        if unknown:
            raise JobError(f"report got {', '.join(unknown)}; expected report(metrics, checkpoint=...)")
        if not isinstance(metrics, Mapping):
            raise JobError(f"report got {seen(metrics)}; expected a mapping of names to numbers")
        assert self.call is not None
        folder = None if checkpoint is None else _local(checkpoint)
        self.call.report(Reported(metrics=dict(metrics), folder=folder))

    @property
    def loaded_checkpoint(self) -> Any:
        """The checkpoint to continue from. The random numbers continue where those of its trial were."""
        if self.start_folder is None:
            return None
        checkpoint = rays("Checkpoint").from_directory(str(self.start_folder))
        if self.start_random is not None:
            self.start_random.restore()
            self.start_random = None
        return checkpoint


def rays(name: str) -> Any:
    """What `ray.tune` calls so. Importing it draws random numbers, which the script would miss."""
    before = None if "ray.tune" in sys.modules else RandomState.now()
    found = getattr(importlib.import_module("ray.tune"), name)
    if before is not None:
        before.restore()
    return found


def _local(checkpoint: Any) -> Path:
    path = getattr(checkpoint, "path", None)
    if not isinstance(path, str) or not Path(path).is_dir():
        raise JobError(
            f"report got the checkpoint {seen(checkpoint)}; expected Checkpoint.from_directory(folder) of a "
            "folder on this machine"
        )
    return Path(path)


_current: list[TuneSession] = []


def current(what: str) -> TuneSession:
    if not _current:
        raise JobError(f"{what} {_OUTSIDE}")
    return _current[0]


def enter(session: TuneSession, function: Callable[..., object]) -> None:
    """Make it the session of this process, also for `ray.tune` where the function uses that."""
    _current[:] = [session]
    if _RAYS not in sys.modules and not _names_ray(function):
        return
    with suppress(ImportError):
        vars(importlib.import_module(_RAYS))["_session"] = session  # Ray has no public way


def leave() -> None:
    _current.clear()
    if (module := sys.modules.get(_RAYS)) is not None:
        vars(module)["_session"] = None


def _names_ray(function: Callable[..., object]) -> bool:
    """Whether it may import Ray while it runs, which takes a second."""
    codes = [getattr(getattr(function, "func", function), "__code__", None)]
    while codes:
        if (code := codes.pop()) is None:
            continue
        if any(name == "ray" or name.startswith("ray.") for name in code.co_names):
            return True
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return False


def report(metrics: Mapping[str, Any], *, checkpoint: Any = None, **unknown: Any) -> None:
    """As `ray.tune.report`: metrics of one iteration and, if it can be continued from here, a checkpoint."""
    current("report").report(metrics, checkpoint=checkpoint, **unknown)


def get_checkpoint() -> Any:
    """As `ray.tune.get_checkpoint`: the checkpoint to continue from; None: begin at the beginning."""
    return current("get_checkpoint").loaded_checkpoint


class Context:
    """As `ray.tune.TuneContext`."""

    def get_experiment_name(self) -> str:
        return current("get_context").experiment_name

    def get_trial_id(self) -> str:
        return current("get_context").trial_id

    def get_trial_name(self) -> str:
        return current("get_context").trial_name

    def get_trial_dir(self) -> str:
        """Removed when the trial leaves this process; what must stay goes into checkpoints."""
        return current("get_context").trial_dir

    def get_trial_resources(self) -> Mapping[str, float]:
        """Of one slot, by Ray's names: `CPU`, `GPU`."""
        return current("get_context").trial_resources


def get_context() -> Context:
    """As `ray.tune.get_context`."""
    return Context()


def read_folder(folder: Path) -> Files:
    files: Files = {}
    for place, folders, names in os.walk(folder):
        relative = Path(place).relative_to(folder)
        files |= {(relative / name).as_posix(): (Path(place) / name).read_bytes() for name in names}
        if not folders and not names and place != str(folder):
            files[relative.as_posix()] = None
    return files


def write_folder(files: Files, folder: Path) -> None:
    """Into a folder that is empty or does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise JobError(f"the checkpoint has a file {name!r} outside of its folder; expected files inside")
        if data is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def copy_folder(source: Path, target: Path) -> None:
    """The target is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
