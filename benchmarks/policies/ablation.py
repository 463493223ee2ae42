"""Settings of one experiment, each with and without an idea, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.policies.averages import Average, average, difference
from benchmarks.policies.simulating import Effort, JobDict, Outcome, Task, simulate_all
from benchmarks.reporting import Cell, Table, Track

Setting = tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job of one setting; `variant` is what is compared within it."""

    setting: Setting
    variant: str
    job: JobDict


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """The runs by setting and variant, on the same seeds."""

    runs: Mapping[tuple[Setting, str], tuple[Outcome, ...]]

    @property
    def settings(self) -> list[Setting]:
        return list(dict.fromkeys(setting for setting, _ in self.runs))

    @property
    def seeds(self) -> int:
        return len(next(iter(self.runs.values())))

    def scores(self, setting: Setting, variant: str) -> list[float]:
        return [run.best or 0.0 for run in self.runs[setting, variant]]

    def score(self, setting: Setting, variant: str) -> Average:
        return average(self.scores(setting, variant))

    def steps(self, setting: Setting, variant: str) -> Average:
        """How far the best trial came."""
        return average([run.best_iterations for run in self.runs[setting, variant]])

    def trials(self, setting: Setting, variant: str) -> Average:
        return average([run.trials for run in self.runs[setting, variant]])

    def gain(self, setting: Setting, variant: str, other: str) -> Average:
        return difference(self.scores(setting, variant), self.scores(setting, other))


def measure(cases: Sequence[Case], effort: Effort, track: Track) -> Ablation:
    tasks = [Task(key=(case.setting, case.variant), job=case.job) for case in cases]
    return Ablation(runs=simulate_all(tasks, effort, track))


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the table of a comparison is called; `keys` name the parts of a setting."""

    name: str
    title: str
    keys: tuple[str, ...]
    variant: str
    other: str
    note: str = ""


def gain_table(ablation: Ablation, columns: Columns) -> Table:
    """One row per setting: both scores, the gain with its standard error, and trials."""
    rows: list[tuple[Cell, ...]] = []
    for setting in ablation.settings:
        mine, other = (ablation.score(setting, name) for name in (columns.variant, columns.other))
        gain = ablation.gain(setting, columns.variant, columns.other)
        rows.append(
            (
                *setting,
                *(f"{score.mean:.3f}" for score in (mine, other)),
                f"{gain.mean:+.3f} ± {gain.se:.3f}",
                f"{gain.mean / other.mean:+.0%}",
                *(f"{ablation.trials(setting, name).mean:.0f}" for name in (columns.variant, columns.other)),
            )
        )
    header = (
        *columns.keys,
        columns.variant,
        columns.other,
        "gain ± se",
        "gain %",
        f"trials, {columns.variant}",
        f"trials, {columns.other}",
    )
    note = f"Score of the best model, means of {ablation.seeds} seeds, the same for both. {columns.note}"
    return Table(name=columns.name, title=columns.title, header=header, rows=tuple(rows), note=note.strip())
