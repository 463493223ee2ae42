"""The best model of a run as one file, and what counts as a file of a run."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from elastune.errors import JobError
from elastune.journal.records import RuntimeKind
from elastune.journal.run_folders import FoundRun
from elastune.runs.reopening import reopen


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file is where its path says: a link in the folder of a run may lead anywhere."""
    return path.resolve().is_relative_to(folder.resolve())


def packed_checkpoint(found: FoundRun) -> Path:
    """A zip file with the newest best checkpoint, alone in a folder that the caller removes."""
    run = found.record.run
    if found.record.body is not RuntimeKind.RAY:
        raise JobError(f"run {run} is simulated and has no models")
    best = reopen(found).standing.best
    path = getattr(best, "checkpoint", None)
    if best is None or path is None:
        raise JobError(f"run {run} has no best model yet")
    source = Path(str(path)).resolve()
    if not is_inside(source, found.folder.path):  # a journal may name any path
        raise JobError(
            f"the checkpoint of run {run} is at {path}, not in the folder of the run; copy it there"
        )
    if not source.exists():
        raise JobError(f"the checkpoint of run {run} is not on this machine: {path}")
    return zip_of(source, Path(tempfile.mkdtemp(prefix="elastune-dashboard-")) / f"model-{run}.zip")


def zip_of(source: Path, target: Path) -> Path:
    """A file, or a folder with all files below it; links are left out: they may lead elsewhere."""
    files = [source] if source.is_file() else sorted(source.rglob("*"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            if file.is_file() and not file.is_symlink() and is_inside(file, source):
                archive.write(file, file.relative_to(source.parent))
    return target
