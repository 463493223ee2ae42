"""The checkpoints of a run and the names of their files."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from elastune.checkpoints.encoding import decode
from elastune.checkpoints.folders import Content, StoreFolder, open_folder
from elastune.errors import ExecutionError
from elastune.training.trainable import State

_NAME = re.compile(r"trial-([0-9]{5,})/iteration-([0-9]{6,})\.ckpt")
_UNDERWAY = re.compile(r"trial-[0-9]{5,}/underway-[0-9]{6,}-[0-9]{4,}\.ckpt")


@dataclass(frozen=True, slots=True)
class Store:
    """`trial-00007/iteration-000012.ckpt` in a local or remote folder; it can be pickled and sent."""

    folder: StoreFolder

    @classmethod
    def open(cls, url: str | Path) -> Store:
        """A local folder, or the URL of one that fsspec can reach (s3://, gs://, memory://, ...)."""
        return cls(open_folder(url))

    @property
    def is_local(self) -> bool:
        """A local path; all machines may still share it."""
        return self.folder.is_local

    def path(self, trial: int, iteration: int) -> str:
        return self.folder.path(_name(trial, iteration))

    def write(self, trial: int, iteration: int, data: Content) -> None:
        """Durable when this returns, and never half a checkpoint."""
        self.folder.write(_name(trial, iteration), data)

    def read(self, trial: int, iteration: int) -> bytes:
        return self.folder.read(_name(trial, iteration))

    def delete(self, trial: int, iteration: int) -> None:
        self.folder.delete(_name(trial, iteration))

    # Amid an iteration, where models hop: after `visits` visits of `iteration`.

    def write_underway(self, trial: int, iteration: int, visits: int, data: Content) -> None:
        self.folder.write(_underway(trial, iteration, visits), data)

    def read_underway(self, trial: int, iteration: int, visits: int) -> bytes:
        return self.folder.read(_underway(trial, iteration, visits))

    def delete_underway(self, trial: int, iteration: int, visits: int) -> None:
        self.folder.delete(_underway(trial, iteration, visits))

    def tidy_underway(self) -> None:
        """Delete all of them, when the run has completed."""
        for name in self.folder.names():
            if _UNDERWAY.fullmatch(name):
                self.folder.delete(name)

    def list(self) -> tuple[tuple[int, int], ...]:
        """Trial and iteration of each, in order. Files with other names are ignored."""
        found = (_NAME.fullmatch(name) for name in self.folder.names())
        return tuple(sorted((int(match[1]), int(match[2])) for match in found if match))

    def check(self) -> None:
        """Write and delete a file, so that a folder that is not writable is reported before the run."""
        name = f".probe-{secrets.token_hex(4)}"
        self.folder.write(name, b"elastune")
        self.folder.delete(name)

    def sweep(self) -> None:
        """Remove half-written files of writers that died; only while no process writes."""
        self.folder.sweep()

    def check_reach(self) -> None:
        """On other machines than that of `check`: raises if the folder, or its driver, is missing."""
        self.folder.check_reach()


def load_checkpoint(path: str | Path, *, pickles: bool = False) -> State:
    """The state in a file that a run has kept, such as that of its best trial; see `docs/trainables.md`.

    A checkpoint has its own format: `torch.load` opens it only after `result.best.export("model.pt")` or
    `elastune export RUN --to model.pt`.

    With `pickles`, pickled objects are loaded, which runs code: only for files that you trust.
    """
    folder, _, name = os.fspath(path).rpartition("/")
    data = open_folder(folder or ".").read(name)
    try:
        return decode(data, pickles=pickles)
    except ExecutionError as error:
        raise ExecutionError(f"{path}: {error}") from error.__cause__


def _name(trial: int, iteration: int) -> str:
    return f"trial-{trial:05d}/iteration-{iteration:06d}.ckpt"


def _underway(trial: int, iteration: int, visits: int) -> str:
    return f"trial-{trial:05d}/underway-{iteration:06d}-{visits:04d}.ckpt"
