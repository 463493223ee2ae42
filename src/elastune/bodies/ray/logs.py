"""The logs of trials: what they are called, and their last lines, which travel where the file does not."""

from __future__ import annotations

from pathlib import Path

_MOST_BYTES = 16_000


def log_name(trial: int, rank: int) -> str:
    """`trial-00003.log`; `trial-00003.rank-1.log` of its second worker."""
    return f"trial-{trial:05d}{f'.rank-{rank}' if rank else ''}.log"


def last_lines(path: Path) -> str:
    """Whole ones; nothing if there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MOST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= _MOST_BYTES else f"...\n{text.partition(chr(10))[2]}"
