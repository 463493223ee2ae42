"""What happened in a run, event by event, kept so that it survives a crash; and the folders of runs."""

from elastune.journal.finding import BrokenFolder, FoundRun, Listing, find_run, find_runs, list_runs
from elastune.journal.folders import RunFolder
from elastune.journal.hashing import hash_lines
from elastune.journal.memory import MemoryJournal
from elastune.journal.protocol import AnyJournal
from elastune.journal.records import Body, Entry, Head, RunId, RunRecord, Summary
from elastune.journal.store import Journal
from elastune.journal.writer import DEFAULT_BATCH, Writer

__all__ = [
    "DEFAULT_BATCH",
    "AnyJournal",
    "Body",
    "BrokenFolder",
    "Entry",
    "FoundRun",
    "Head",
    "Journal",
    "Listing",
    "MemoryJournal",
    "RunFolder",
    "RunId",
    "RunRecord",
    "Summary",
    "Writer",
    "find_run",
    "find_runs",
    "hash_lines",
    "list_runs",
]
