"""The list of runs for many browsers and large folders: only what has changed is read again.

A folder may have ten thousand runs, of which each takes milliseconds to read. A request reads for a moment
and says how many are left; the next one goes on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from elastune.errors import ElastuneError
from elastune.journal.run_folders import BrokenFolder, RunFolder, indexed_folders, run_folders
from elastune.runs.run_list import RunLine, read_lines
from elastune.views.page.figures import Json, finite

_PATIENCE_S = 0.7
_LOCK = ".lock"
_Stamp = tuple[tuple[str, int, int], ...]
_Read = tuple[RunLine, ...] | BrokenFolder


class RunListing:
    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._known: dict[Path, tuple[_Stamp | None, _Read]] = {}
        self._version = 0
        self._answer: Json = {}
        self._fresh_until_s = float("-inf")
        self._lock = threading.Lock()

    def answer(self, seen: str) -> Json:
        """`seen` is the version that the browser has."""
        with self._lock:
            now_s = self._clock()
            if now_s > self._fresh_until_s:
                self._answer = self._read()
                after_s = self._clock()
                self._fresh_until_s = after_s + (after_s - now_s)  # half of the time is left to others
            answer = self._answer
        if seen == str(answer["version"]) and not answer["unread"]:
            return {"version": answer["version"], "unread": 0}
        return answer

    def _read(self) -> Json:
        until_s, unread, found = self._clock() + _PATIENCE_S, 0, list(self._folders())
        for folder in found:
            known = self._known.get(folder.path)
            if known is None and self._clock() > until_s:
                unread += 1
                continue
            stamp = _stamp(folder)
            if known is not None and ((stamp is not None and known[0] == stamp) or self._clock() > until_s):
                continue
            read = _read_folder(folder)
            if known is None or known[1] != read:
                self._version += 1
            self._known[folder.path] = stamp, read
        paths = {folder.path for folder in found}
        for path in [path for path in self._known if path not in paths]:
            del self._known[path]
            self._version += 1
        return self._whole(found, unread)

    def _folders(self) -> Iterator[RunFolder]:
        """Of the root, then of the user's index."""
        root, seen = self._root.resolve(), set[Path]()
        for folder in run_folders(self._root):
            seen.add(root / folder.path.name)
            yield folder
        for folder in indexed_folders():
            if folder.path.resolve() not in seen:
                yield folder

    def _whole(self, found: list[RunFolder], unread: int) -> Json:
        """Folders that cannot be read are named only if they are in the root."""
        lines: list[RunLine] = []
        broken: list[Json] = []
        for folder in found:
            match self._known.get(folder.path):
                case (_, BrokenFolder(reason=reason)) if folder.path.parent == self._root:
                    broken.append({"folder": folder.path.name, "reason": reason})
                case (_, tuple(read)):
                    lines += read
        lines.sort(key=lambda line: line.record.created_utc, reverse=True)
        return {
            "version": self._version,
            "unread": unread,
            "root": str(self._root),
            "runs": [finite(line.to_dict()) for line in lines],
            "broken": broken,
        }


def _read_folder(folder: RunFolder) -> _Read:
    try:
        return read_lines(folder)
    except ElastuneError as error:
        return BrokenFolder(folder=folder, reason=str(error))


def _stamp(folder: RunFolder) -> _Stamp | None:
    """None: it is being written, or its writer has died, which only its lock tells."""
    stamps = []
    try:
        with os.scandir(folder.path) as inside:
            for entry in inside:
                if entry.name.endswith(_LOCK):
                    return None
                status = entry.stat()
                stamps.append((entry.name, status.st_mtime_ns, status.st_size))
    except OSError:
        return None
    return tuple(sorted(stamps))
