"""Ctrl-C may come anywhere: what is stored then is whole, and its hash is that of its lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from elastune.journal.records import LineHash, hash_entries
from elastune.journal.writer import AnyJournal, Writer
from tests.journal.examples import RUN, append, entries, record
from tests.thoroughness import most_telling

WATCHED = {
    Writer.append.__code__,
    Writer.commit.__code__,
    LineHash.add.__code__,
    LineHash._hash_waiting.__code__,
}


@contextmanager
def interrupted_at(step: int) -> Iterator[None]:
    """Before the so many-th line of what is watched, as a signal would."""
    left = step

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code not in WATCHED:
            return None
        if event == "line":
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@most_telling("step", *sorted(range(1, 40), key=lambda step: step % 3), quick=13)
def test_an_interrupt_leaves_whole_events_and_their_hash(journal: AnyJournal, step: int) -> None:
    writer = journal.start(record(), batch=None)
    append(writer, 1, 3)
    try:
        with interrupted_at(step):
            append(writer, 4, 5)
            writer.commit()
    except KeyboardInterrupt:
        pass
    writer.close()
    stored = list(journal.read(RUN))
    assert stored == entries(1, len(stored))
    assert len(stored) >= 3
    assert journal.summary(RUN).head == hash_entries(stored).head
    with journal.resume(RUN) as again:
        append(again, again.next_number, 6)
    assert list(journal.read(RUN)) == entries(1, 6)
