"""All policies on recorded curves: 13 tables, 3 measured scaling laws, 3 deadlines and 3 budgets.

Regret is the distance to a clairvoyant who trains only the best configuration of the table, until the same
deadline, with the best gang that the budget pays for; in percent of the table's range of final values.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.policies.contestants import CONTESTANTS, SEER_VARIANTS, Contestant, Jobs, Setting
from benchmarks.policies.curves import CurveSet, load_all
from benchmarks.policies.scaling import Law, load_laws
from benchmarks.policies.simulating import Effort, Outcome, Task, simulate_all
from benchmarks.policies.study import Key, Study
from benchmarks.policies.tables_report import report
from benchmarks.reporting import Report, Track, silently

DEADLINES_MIN = (15, 30, 60)
SLOTS = (4, 16, 64)
LAST_ROUND = "seer, best of the last round"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What is run on what."""

    tables: Sequence[CurveSet]
    laws: Sequence[Law]
    deadlines_min: Sequence[int] = DEADLINES_MIN
    slots: Sequence[int] = SLOTS
    contestants: Sequence[Contestant] = (*CONTESTANTS, *SEER_VARIANTS)

    def settings(self) -> list[tuple[Setting, CurveSet, Law]]:
        return [
            (
                Setting(table=curves.name, law=law.name, deadline_min=deadline_min, slots=slots),
                curves,
                law,
            )
            for curves in self.tables
            for law in self.laws
            for deadline_min in self.deadlines_min
            for slots in self.slots
        ]


def run(track: Track = silently, *, effort: Effort) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        field = Field(tables=load_all(Path(folder)), laws=load_laws())
        return report(measure(field, effort, track))


def measure(field: Field, effort: Effort, track: Track = silently) -> Study:
    jobs, settings = Jobs(), field.settings()
    first_seeds = {law.name: place * effort.seeds for place, law in enumerate(field.laws)}
    tasks = [
        Task(
            key=(setting, contestant.name),
            job=jobs.of(contestant, setting, curves, law),
            first_seed=first_seeds[law.name],
        )
        for setting, curves, law in settings
        for contestant in field.contestants
    ]
    runs = simulate_all(tasks, effort, track)
    regrets: dict[Key, tuple[float, ...]] = {}
    for setting, curves, law in settings:
        best = curves.clairvoyant(setting.deadline_s, law.best(setting.slots))
        for contestant in field.contestants:
            outcomes = runs[setting, contestant.name]
            regrets[setting, contestant.name] = tuple(curves.regret(run.best, best) for run in outcomes)
            if contestant.name == "seer":
                finals = tuple(curves.regret(_letter(run), best) for run in outcomes)
                regrets[setting, LAST_ROUND] = finals
    used = {
        (setting, name): tuple(run.usd / setting.budget_usd for run in outcomes)
        for (setting, name), outcomes in runs.items()
    }
    trials = {key: tuple(run.trials for run in outcomes) for key, outcomes in runs.items()}
    return Study(regrets=regrets, used=used, trials=trials)


def _letter(run: Outcome) -> float | None:
    """What SEER's Algorithm 1 returns; where all had trained to their end before, what was found by then."""
    return run.best if run.last is None else run.last
