"""The folder of a run: `<name>-<utc>-<id>`, with everything that the run leaves behind."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from elastune.errors import InvariantError, JobError
from elastune.journal.records import RunId

_STAMP = "%Y%m%dT%H%M%SZ"
_ID = re.compile(r"[0-9a-f]{6}")
_FOLDER_NAME = re.compile(r"(?P<name>.+)-(?P<stamp>[0-9]{8}T[0-9]{6}Z)-(?P<id>[0-9a-f]{6})")

# File systems take names of 255 bytes; the time, the id and the dashes need 24 of them.
_NAME_BYTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """Where the files of a run lie."""

    path: Path

    @classmethod
    def create(cls, root: Path, *, name: str, now_utc: datetime, run: RunId) -> RunFolder:
        """A new folder under `root`. `run` is six hexadecimal digits, drawn by the caller."""
        if not _ID.fullmatch(run):
            raise InvariantError(f"a run folder got the id {run!r}; expected six digits like 3fa2c1")
        if now_utc.utcoffset() != timedelta(0):
            raise InvariantError(f"a run folder got the time {now_utc}; expected one in UTC")
        folder = cls(path=root / f"{slug(name)}-{now_utc.strftime(_STAMP)}-{run}")
        try:
            folder.path.mkdir(parents=True)
            for part in (folder.checkpoints, folder.logs, folder.report):
                part.mkdir()
        except FileExistsError as error:
            raise JobError(f"the run folder {folder.path} cannot be made: {error.filename} exists") from error
        except OSError as error:
            raise JobError(
                f"the run folder {folder.path} cannot be made: {error.strerror}; choose another root for runs"
            ) from error
        return folder

    @property
    def run(self) -> RunId | None:
        """The id in the folder's name; None if somebody renamed it."""
        match = _FOLDER_NAME.fullmatch(self.path.name)
        return RunId(match["id"]) if match else None

    @property
    def created_utc(self) -> datetime | None:
        match = _FOLDER_NAME.fullmatch(self.path.name)
        return _moment(match["stamp"]) if match else None

    @property
    def job(self) -> Path:
        return self.path / "job.yaml"

    @property
    def profile(self) -> Path:
        return self.path / "profile.json"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def simulation(self) -> Path:
        """With which seeds, policies and faults a simulation was asked for."""
        return self.path / "simulation.json"

    @property
    def journal(self) -> Path:
        return self.path / "journal.sqlite"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def report(self) -> Path:
        return self.path / "report"


def run_folders(root: Path) -> list[RunFolder]:
    """All folders under `root` with a name that `RunFolder.create` gives, newest first."""
    dated = list(_dated(root))
    return [
        folder for _, folder in sorted(dated, key=lambda pair: (pair[0], pair[1].path.name), reverse=True)
    ]


def _dated(root: Path) -> Iterator[tuple[datetime, RunFolder]]:
    if not root.is_dir():
        return
    for path in root.iterdir():
        folder = RunFolder(path=path)
        created = folder.created_utc
        if created is not None and path.is_dir():
            yield created, folder


def _moment(stamp: str) -> datetime | None:
    """Digits alone make no date: a folder may be called 99999999T999999Z."""
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def slug(name: str) -> str:
    """A name as part of a file's name: letters, marks and digits of any script, dashes and underscores.

    Nothing in it can lead out of a folder, hide a file or be taken for an option.
    """
    normal = unicodedata.normalize("NFKC", name)
    kept = "".join(char if char == "_" or unicodedata.category(char)[0] in "LMN" else "-" for char in normal)
    joined = re.sub(r"-+", "-", kept).strip("-")
    short = joined.encode()[:_NAME_BYTES].decode(errors="ignore").rstrip("-")
    return short or "run"
