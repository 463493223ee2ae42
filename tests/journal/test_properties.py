"""However a run is cut into commits and resumptions, the journal is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.journal.records import Entry, hash_lines
from elastune.journal.store import Journal
from elastune.journal.writer import AnyJournal, MemoryJournal
from tests.journal.examples import RUN, record

LINES = st.lists(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1), min_size=1
)
STEPS = st.lists(st.tuples(LINES, st.sampled_from(["go on", "commit", "resume"])), max_size=30)


def play(journal: AnyJournal, steps: list[tuple[list[str], str]], batch: int | None) -> str:
    writer = journal.start(record(), batch=batch)
    for number, (lines, then) in enumerate(steps, start=1):
        writer.append(number, lines)
        if then == "commit":
            writer.commit()
        elif then == "resume":
            writer.close()
            writer = journal.resume(RUN, batch=batch)
    writer.close()
    return writer.sha256


@settings(max_examples=40)
@given(steps=STEPS, batch=st.one_of(st.none(), st.integers(1, 10)))
def test_cuts_leave_no_trace(steps: list[tuple[list[str], str]], batch: int | None) -> None:
    written = [
        Entry(number=number, event_line=lines[0], command_lines=tuple(lines[1:]))
        for number, (lines, _) in enumerate(steps, start=1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        for journal in (MemoryJournal(), Journal.open(Path(folder) / "journal.sqlite", durable=False)):
            assert play(journal, steps, batch) == hash_lines(written)
            assert list(journal.read(RUN)) == written
            assert journal.summary(RUN).head.lines == sum(len(lines) for lines, _ in steps)
