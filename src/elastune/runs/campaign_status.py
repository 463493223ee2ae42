"""The status of a campaign, several runs of one job, as `simulate` and `status` show it.

`gather` summarises the runs of a folder from their digests and replays those without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from elastune.history.notes import RunNote, collect_notes
from elastune.history.status import status_of
from elastune.history.summary import PolicySummary, RunDigest, digest_of, summarise_all, terms_of
from elastune.journal.run_folders import FoundRun, RunFolder
from elastune.journal.store import Journal
from elastune.runs.reopening import predicted_for, setup_of, taken_in
from elastune.runs.run_files import RunIntent, read_digests, read_intent, repeating
from elastune.runs.run_list import RunState, find_end, state_of
from elastune.setup.run_setup import RunSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Summarises the finished runs. `asked` is the number requested."""

    name: str
    faults: str | None  # None: unknown
    runs: tuple[str, ...]  # ids
    asked: int
    summaries: tuple[PolicySummary, ...]
    folder: RunFolder | None

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({seed for summary in self.summaries for seed in summary.seeds}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    run: str
    policy: str
    seed: int
    state: RunState
    seconds: float  # run clock at the last event


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStatus:
    overview: Overview
    digests: tuple[RunDigest, ...]
    unfinished: tuple[Unfinished, ...]
    intent: RunIntent | None

    def to_dict(self) -> dict[str, object]:
        overview = self.overview
        folder = overview.folder
        return {
            "name": overview.name,
            "folder": None if folder is None else str(folder.path),
            "faults": overview.faults,
            "asked": overview.asked,
            "repeat": None if self.intent is None or folder is None else repeating(folder, self.intent),
            "runs": [asdict(digest) for digest in self.digests],
            "unfinished": [{**asdict(each), "state": each.state.value} for each in self.unfinished],
            "summary": [summary.to_dict() for summary in overview.summaries],
        }


def started_together(runs: Sequence[FoundRun]) -> bool:
    """Whether several runs differ only in the number after the dot; a journal may hold runs of many jobs."""
    return len(runs) > 1 and len({found.record.run.partition(".")[0] for found in runs}) == 1


def gather(runs: Sequence[FoundRun]) -> CampaignStatus:
    """The status of runs that were started together."""
    first = runs[0]
    journal = Journal.open(first.journal, read_only=True)
    known = read_digests(first.folder)
    setups: dict[str, RunSetup] = {}
    digests: list[RunDigest] = []
    unfinished: list[Unfinished] = []
    for found in sorted(runs, key=lambda each: int(each.record.run.partition(".")[2] or 0)):
        record, summary = found.record, journal.summary(found.record.run)
        end, at_s = find_end(journal, summary)
        if summary.last is not None and record.policy not in setups:
            setups[record.policy] = setup_of(record, journal)
        if end is not None:
            sha256 = summary.head.sha256
            digests.append(known.get(sha256) or _replayed(found, journal, setups[record.policy], sha256))
        else:
            state = state_of(journal, summary, end)
            unfinished.append(
                Unfinished(run=record.run, policy=record.policy, seed=record.seed, state=state, seconds=at_s)
            )
    terms = [terms_of(setup, predicted_for(setup, first.folder)) for setup in setups.values()]
    intent = read_intent(first.folder)
    overview = Overview(
        name=first.record.name,
        faults=None if intent is None else intent.faults,
        runs=tuple(digest.run for digest in digests),
        asked=len(runs) if intent is None else intent.runs,
        summaries=summarise_all(terms, digests),
        folder=first.folder,
    )
    return CampaignStatus(
        overview=overview, digests=tuple(digests), unfinished=tuple(unfinished), intent=intent
    )


def _replayed(found: FoundRun, journal: Journal, setup: RunSetup, sha256: str) -> RunDigest:
    record = found.record
    notes: list[RunNote] = []
    entries = collect_notes(journal.read(record.run), notes)
    core, _ = taken_in(setup.make_core(record.seed), entries, record.run, audited=False)
    predicted = predicted_for(setup, found.folder)
    status = status_of(setup, core.state, seed=record.seed, predicted=predicted, remarks=notes)
    return digest_of(record.run, status, sha256)
