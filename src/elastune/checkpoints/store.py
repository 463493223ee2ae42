"""The checkpoints of a run: which there are, and what their files are called."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from elastune.checkpoints.container import Buffer
from elastune.checkpoints.encoding import decode
from elastune.checkpoints.folders import StoreFolder, open_folder
from elastune.errors import ExecutionError
from elastune.training.trainable import State

_NAME = re.compile(r"trial-([0-9]{5,})/iteration-([0-9]{6,})\.ckpt")
_UNDERWAY = re.compile(r"trial-[0-9]{5,}/underway-[0-9]{6,}-[0-9]{4,}\.ckpt")


@dataclass(frozen=True, slots=True)
class Store:
    """`trial-00007/iteration-000012.ckpt` in a folder, here or elsewhere; it can be pickled and sent."""

    folder: StoreFolder

    @classmethod
    def open(cls, url: str | Path) -> Store:
        """A local folder, or the URL of one that fsspec can reach (s3://, gs://, memory://, ...)."""
        return cls(open_folder(url))

    @property
    def is_local(self) -> bool:
        """It may be a folder that all machines share, though."""
        return self.folder.is_local

    def path(self, trial: int, iteration: int) -> str:
        return self.folder.path(_name(trial, iteration))

    def write(self, trial: int, iteration: int, data: bytes) -> None:
        """Durable when this returns, and never half a checkpoint."""
        self.folder.write(_name(trial, iteration), data)

    def read(self, trial: int, iteration: int) -> bytes:
        return self.folder.read(_name(trial, iteration))

    def delete(self, trial: int, iteration: int) -> None:
        """One that is not there is fine."""
        self.folder.delete(_name(trial, iteration))

    # Amid an iteration, where models hop: after so many visits of `iteration`.

    def write_underway(self, trial: int, iteration: int, visits: int, data: bytes) -> None:
        self.folder.write(_underway(trial, iteration, visits), data)

    def read_underway(self, trial: int, iteration: int, visits: int) -> bytes:
        return self.folder.read(_underway(trial, iteration, visits))

    def delete_underway(self, trial: int, iteration: int, visits: int) -> None:
        self.folder.delete(_underway(trial, iteration, visits))

    def tidy_underway(self) -> None:
        """All of them, at a good end."""
        for name in self.folder.names():
            if _UNDERWAY.fullmatch(name):
                self.folder.delete(name)

    def list(self) -> tuple[tuple[int, int], ...]:
        """Trial and iteration of each, in order. Files of other names are left alone."""
        found = (_NAME.fullmatch(name) for name in self.folder.names())
        return tuple(sorted((int(match[1]), int(match[2])) for match in found if match))

    def check(self) -> None:
        """Write and delete something, so that a folder that cannot be written is told before the run."""
        name = f".probe-{secrets.token_hex(4)}"
        self.folder.write(name, b"elastune")
        self.folder.delete(name)

    def sweep(self) -> None:
        """Remove what was half written when its writer died; only when nobody writes."""
        self.folder.sweep()

    def check_reach(self) -> None:
        """On another machine than the one of `check`: is the folder there too, or its driver installed?"""
        self.folder.check_reach()


def load_checkpoint(path: str | Path, *, pickles: bool = False) -> State:
    """The state in a file that a run has kept, such as that of its best trial; see `docs/trainables.md`.

    With `pickles`, objects that were pickled are loaded, which runs code: only for files that you trust.
    """
    folder, _, name = os.fspath(path).rpartition("/")
    return _decoded(open_folder(folder or ".").read(name), str(path), pickles=pickles)


def _decoded(data: Buffer, path: str, *, pickles: bool) -> State:
    try:
        return decode(data, pickles=pickles)
    except ExecutionError as error:
        raise ExecutionError(f"{path}: {error}") from error.__cause__


def _name(trial: int, iteration: int) -> str:
    return f"trial-{trial:05d}/iteration-{iteration:06d}.ckpt"


def _underway(trial: int, iteration: int, visits: int) -> str:
    return f"trial-{trial:05d}/underway-{iteration:06d}-{visits:04d}.ckpt"
