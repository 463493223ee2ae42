"""How another process asks a run to stop: by a file in its folder."""

from __future__ import annotations

from elastune.errors import ExecutionError
from elastune.journal import RunFolder

_NAME = "stop"


class StopFile:
    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / _NAME

    def write(self, reason: str) -> None:
        try:
            self._path.write_text(reason + "\n", encoding="utf-8")
        except OSError as error:
            raise ExecutionError(f"{self._path} cannot be written: {error.strerror}") from error

    def clear(self) -> None:
        """Nobody asks any more."""
        self._path.unlink(missing_ok=True)

    def reason(self) -> str | None:
        """Who asked, and why; None: nobody did."""
        try:
            return self._path.read_text(encoding="utf-8").strip() or "somebody asked for it"
        except OSError:
            return None
