"""All policies on recorded curves: which runs there are, and their results.

Regret is the distance to a clairvoyant who trains only the best configuration of the table, until the same
deadline, with the best gang that the budget pays for; in percent of the table's range of final values. Runs
go in blocks of seeds, and the cheap cells of a block first: a campaign that is stopped has seen every table.
"""

from __future__ import annotations

import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.policies import outside
from benchmarks.policies.contestants import (
    CONTESTANTS,
    AnyContestant,
    Contestant,
    Group,
    Jobs,
    contestants_named,
    why_not,
)
from benchmarks.policies.curves import CurveSet, load_tables, real_tables, surrogate_tables
from benchmarks.policies.evidence import Evidence
from benchmarks.policies.results import Key, Result, ResultFiles, code_hash
from benchmarks.policies.scaling import BATCHES, Law, load_laws
from benchmarks.policies.settings import Setting, Terms, all_cells
from benchmarks.policies.simulating import NOTHING, Effort, Outcome, run_once
from benchmarks.policies.tables_report import report
from benchmarks.reporting import RESULTS, Report, Track, silently
from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.setup.run_setup import RunSetup, prepare

BLOCK = 5
_SEEDS = 1000
DEFAULT_CELLS = ("0.25x4", "0.25x16", "1x4", "1x16")
"""The cheap ones. A seed of twelve contestants takes 0.8 and 2.0 s of CPU in the first two (means of held-out
tables), 2.2 and 6.0 s in the others, and 27 s in 1x64 without Ray Tune (TaskSet 1); three quarters of it are
TPE, about 9 ms per trial. So 20 seeds on 20 tables take 75 minutes or more, as some have up to seven times as
many iterations as TaskSet; extrapolated, everything but the Gaussian process takes 200 to 300 hours."""
DEFAULT_RESULTS = RESULTS / "policies" / "runs"


def default_contestants() -> tuple[str, ...]:
    return tuple(each.name for each in CONTESTANTS if each.group is not Group.VARIANT and not each.is_slow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is run on what, and where its results are."""

    tables: Sequence[str] = field(default_factory=real_tables)
    laws: Sequence[str] = ("bert",)
    cells: Sequence[str] = DEFAULT_CELLS
    contestants: Sequence[str] = field(default_factory=default_contestants)
    results: Path = DEFAULT_RESULTS
    measures: bool = True
    """Whether runs are added; else the results that there are are reported."""

    @classmethod
    def everything(cls, results: Path = DEFAULT_RESULTS) -> Choice:
        cells = [str(cell) for boots in (False, True) for cell in all_cells(boots=boots)]
        return cls(
            tables=[*real_tables(), *surrogate_tables()],
            laws=tuple(BATCHES),
            cells=cells,
            contestants=tuple(each.name for each in CONTESTANTS),
            results=results,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some seeds of one contestant in one setting."""

    contestant: AnyContestant
    setting: Setting
    seeds: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    tables: Sequence[CurveSet]
    laws: Sequence[Law]
    cells: Sequence[Terms]
    contestants: Sequence[AnyContestant]

    def blocks(self, seeds: int, known: set[tuple[str, Key]]) -> Iterator[Block]:
        """What has not been run yet."""
        cells = sorted(self.cells, key=lambda cell: (cell.trainings * cell.slots, cell))
        for first in range(0, seeds, BLOCK):
            for cell in cells:
                for curves in self.tables:
                    for law in self.laws:
                        setting = Setting(curves=curves, law=law, terms=cell)
                        for contestant in self.contestants:
                            missing = [
                                seed
                                for seed in range(first, min(first + BLOCK, seeds))
                                if (contestant.name, key_of(setting, seed)) not in known
                            ]
                            if missing:
                                yield Block(contestant=contestant, setting=setting, seeds=missing)


def key_of(setting: Setting, seed: int) -> Key:
    return Key(setting.curves.name, setting.law.name, str(setting.terms), seed)


def seed_of(setting: Setting, seed: int) -> int:
    """Every table and law has seeds of its own. With the same ones it would be the same luck many times:
    the tasks of TaskSet have the same rows, and an interval over tables would not know that."""
    block = zlib.crc32(f"{setting.curves.name} {setting.law.name}".encode()) % 1_000_000
    return block * _SEEDS + seed


def run(track: Track = silently, *, effort: Effort, choice: Choice) -> Report:
    contestants = [each for each in contestants_named(list(choice.contestants)) if _takes_part(each)]
    files = ResultFiles(choice.results)
    if choice.measures:
        with tempfile.TemporaryDirectory() as folder:
            field = Field(
                tables=load_tables(choice.tables, Path(folder)),
                laws=[law for law in load_laws() if law.name in choice.laws],
                cells=[Terms.parse(cell) for cell in choice.cells],
                contestants=contestants,
            )
            measure(field, effort, files, track)
    chosen = [
        result
        for result in files.read([each.name for each in contestants])
        if result.table in choice.tables
        and result.law in choice.laws
        and result.cell in choice.cells
        and result.seed < effort.seeds
    ]
    return report(Evidence.of(chosen))


def _takes_part(contestant: AnyContestant) -> bool:
    reason = why_not(contestant)
    if reason is not None:
        print(f"skipped: {contestant.name}: {reason}")
    return reason is None


def measure(field: Field, effort: Effort, files: ResultFiles, track: Track = silently) -> None:
    """Every run that is not in the files yet."""
    names = [each.name for each in field.contestants]
    known = {(result.contestant, result.key) for result in files.read(names)}
    blocks = list(field.blocks(effort.seeds, known))
    if effort.processes == 1:
        for block in track(blocks):
            files.append(play(block))
        return
    with ProcessPoolExecutor(effort.processes) as pool:
        futures = [pool.submit(_play_all, block) for block in blocks]
        for _, future in zip(track(blocks), as_completed(futures), strict=True):
            files.append(future.result())


_JOBS = Jobs()


def _play_all(block: Block) -> list[Result]:
    return list(play(block))


def play(block: Block) -> Iterator[Result]:
    """The runs of a block, as they end."""
    contestant, setting = block.contestant, block.setting
    prepared = _prepared(contestant, setting) if isinstance(contestant, Contestant) else None
    for seed in block.seeds:
        own_seed = seed_of(setting, seed)
        begun_s = time.process_time()
        if not isinstance(contestant, Contestant):
            outcome = outside.play(contestant, setting, own_seed)
        else:
            constants = contestant.constants
            outcome = NOTHING if prepared is None else run_once(prepared, own_seed, constants)
        yield _result(block, seed, outcome, time.process_time() - begun_s)


def _prepared(contestant: Contestant, setting: Setting) -> RunSetup | None:
    """None: its policy finds no room in the limits."""
    try:
        return prepare(Job.from_dict(_JOBS.of(contestant, setting)))
    except InfeasibleError:
        return None


def _result(block: Block, seed: int, outcome: Outcome, cpu_s: float) -> Result:
    setting = block.setting
    return Result(
        contestant=block.contestant.name,
        **key_of(setting, seed)._asdict(),
        regret=setting.regret(outcome.best),
        last_regret=None if outcome.last is None else setting.regret(outcome.last),
        best=outcome.best,
        best_iterations=outcome.best_iterations,
        trials=outcome.trials,
        iterations=outcome.iterations,
        time_share=outcome.seconds / setting.deadline_s,
        budget_share=outcome.usd / setting.budget_usd,
        cpu_s=cpu_s,
        code=code_hash(),
    )
