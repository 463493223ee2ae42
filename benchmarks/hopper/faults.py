"""Cerebro's Figure 8(B): two of eight workers are killed in the first epoch and come back later.

Real nodes of this machine die by `kill -9`; the core asks for others, and they come when they have booted.
Iterations sleep and learn by a rule that does not depend on the order of visits, so whatever was lost would
show. The same is simulated beside it, with visits and boots that take as long as they really took.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.hopper.journals import Course
from benchmarks.hopper.law import RESNET
from benchmarks.hopper.prediction import flat
from benchmarks.hopper.systems import System, Workload, carry_out
from benchmarks.hopper.workloads import sleeping
from benchmarks.plotting import Look, draw_series, entitle, grid_of_axes, legend_below
from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.journals import Timeline
from elastune.api.simulating import simulate
from elastune.core.state import State
from elastune.job.job import Job
from elastune.journal.codec import decode
from elastune.journal.store import Journal
from elastune.model.cluster import SECONDS_PER_HOUR
from elastune.providers.local.processes import NODE, kill_all
from elastune.providers.simulated_faults import Luck, NodeFaults
from elastune.runtime.simulated.cloud import Faults

LOST = 2
_LAST_SEED = 1_000_000
LOOKS = {
    "undisturbed": Look("undisturbed", "#009E73", "o"),
    "lost": Look("two of eight lost", "#D55E00", "s"),
    "lost, replicas": Look("two of eight lost, every partition on two workers", "#0072B2", "^"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    unit_s: float = 0.5
    workers: int = 8
    epochs: int = 5
    trials: int = 16
    replicas: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    name: str
    real: Course
    simulated: Course


class Killer:
    """Watches a run, and ends nodes for good when the first epoch is half through."""

    def __init__(self, count: int, after: int) -> None:
        self._count = count
        self._after = after
        self._done = False

    def __call__(self, state: State) -> None:
        visits = sum(len(progress.seen) for progress in state.hop_progress.values())
        if self._done or visits < self._after:
            return
        self._done = True
        for node in list(state.where)[: self._count]:
            kill_all(NODE, node)


def run(track: Track = silently) -> Report:
    return measure(Scope(), track)


def measure(scope: Scope, track: Track = silently) -> Report:
    with tempfile.TemporaryDirectory(prefix="hopper-data-") as folder:
        load = sleeping(
            Path(folder),
            RESNET,
            unit_s=scope.unit_s,
            workers=scope.workers,
            epochs=scope.epochs,
            trials=scope.trials,
        )
        copied = replace(load, replicas=scope.replicas)
        cases = [("undisturbed", load), ("lost", load), ("lost, replicas", copied)]
        measured = [_measure(name, each) for name, each in track(cases)]
    return Report(tables=(_epochs(measured), _repeated(measured, load)), figures={"faults": _draw(measured)})


def _measure(name: str, load: Workload) -> Measured:
    hit = name != "undisturbed"
    killer = Killer(LOST, load.trials * load.partitions // 2) if hit else None
    real = carry_out(load, System.HOPPING, watch=killer).course
    return Measured(name=name, real=real, simulated=_simulate(load, real))


def _simulate(load: Workload, real: Course) -> Course:
    """With the boots of the nodes that came later, for only those are in the time that is shown."""
    late = list(real.boots_s.values())[load.workers :]
    boot_s = round(statistics.fmean(late or real.boots_s.values()), 3)
    with tempfile.TemporaryDirectory(prefix="hopper-") as name:
        known = replace(
            load,
            profile={"startup": round(statistics.fmean(real.overheads_s()), 4)},
            cluster={"init": boot_s},
        )
        job = Job.from_dict({**known.job(System.HOPPING, ""), "trainable": flat})
        faults, seed = Faults(), 0
        if real.losses:
            # As late after the first order as it really was.
            at_s = boot_s + statistics.fmean(loss.at_s for loss in real.losses) - real.began_s
            faults, seed = _luck(job, load, at_s, width_s=0.1 * real.epochs_s[0])
        path = Path(name) / "journal.sqlite"
        simulate(job, seed=seed, faults=faults, journal=path)
        return Course.of(_timeline(path))


def _luck(job: Job, load: Workload, at_s: float, *, width_s: float) -> tuple[Faults, int]:
    """A seed with which a cloud at random loses just two of the first nodes, and then."""
    whole_s = at_s + 3.0 * load.epochs * load.trials * load.believed_s / load.workers
    rate = LOST / load.workers / whole_s
    nodes = NodeFaults(lost_per_hour=rate * SECONDS_PER_HOUR)
    terms = job.cluster.to_terms()
    for seed in range(_LAST_SEED):
        luck = Luck(terms, nodes, seed=seed)
        waits = [luck.lost_after_s(number) for number in range(load.workers + LOST)]
        hit = [wait for wait in waits[: load.workers] if abs(wait - at_s) < width_s / 2]
        if len(hit) == LOST and sum(wait < whole_s for wait in waits) == LOST:
            return Faults(nodes=nodes), seed
    raise RuntimeError(f"no seed up to {_LAST_SEED} loses {LOST} nodes about {at_s:.1f} s; expected one")


def _timeline(path: Path) -> Timeline:
    journal = Journal.open(path, read_only=True)
    (record,) = journal.runs()
    steps = []
    for entry in journal.read(record.run):
        event, *commands = (decode(line) for line in (entry.event_line, *entry.command_lines))
        steps.append((event, tuple(commands)))
    return Timeline(steps=tuple(steps))  # type: ignore[arg-type]


def _epochs(measured: Sequence[Measured]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in measured:
        for body, course in (("real", each.real), ("simulated", each.simulated)):
            rows.append(
                (
                    LOOKS[each.name].label,
                    body,
                    *(round(seconds, 2) for seconds in course.epochs_s),
                    course.seconds,
                    _when([loss.at_s for loss in course.losses], course),
                    _when(course.joined_s, course),
                )
            )
    epochs = [f"epoch {number}, s" for number in range(1, 1 + len(measured[0].real.epochs_s))]
    return Table(
        name="faults",
        title="Two of eight workers killed in the first epoch: seconds per epoch of 16 configurations",
        header=("run", "body", *epochs, "all, s", "lost at, s", "back at, s"),
        rows=tuple(rows),
        note="Seconds from the first order to train. Real: `kill -9` of two local nodes; the core asks for "
        "two others at once, which boot. Simulated: the same core, with visits and boots as long as they "
        f"really were. Load of the machine at the end {os.getloadavg()[0]:.1f}.",
    )


def _when(times: Sequence[float], course: Course) -> str:
    return " ".join(f"{at_s - course.began_s:.1f}" for at_s in times) or "–"


def _repeated(measured: Sequence[Measured], load: Workload) -> Table:
    usual = measured[0].real
    rows: list[tuple[Cell, ...]] = []
    for each in measured:
        for body, course in (("real", each.real), ("simulated", each.simulated)):
            missing = usual.rows.keys() - course.rows.keys()
            changed = sum(
                course.metrics()[key] != metrics
                for key, metrics in usual.metrics().items()
                if key in course.rows
            )
            rows.append(
                (
                    LOOKS[each.name].label,
                    body,
                    len(course.stays),
                    course.in_vain,
                    course.again,
                    len(missing),
                    changed if body == "real" else None,
                    "yes" if course.is_complete(load.partitions) else "no",
                )
            )
    return Table(
        name="faults-repeated",
        title="What the losses cost, and that nothing is missing",
        header=(
            "run",
            "body",
            "visits ended",
            "cut short",
            "made again",
            "rows missing",
            "rows changed",
            "every partition in every epoch",
        ),
        rows=tuple(rows),
        note="Against the rows of the undisturbed real run, metrics compared to the last bit. Made again: "
        "visits that had ended, of models that were lost with their node before a state was durable.",
    )


def _draw(measured: Sequence[Measured]) -> Figure:
    figure, axes = grid_of_axes(1, 1, width=8.0, height=4.2)
    for each in measured:
        for course, dashed in ((each.real, False), (each.simulated, True)):
            look = LOOKS[each.name]
            epochs = list(range(1, 1 + len(course.epochs_s)))
            label = f"{look.label}{', simulated' if dashed else ''}"
            draw_series(axes[0, 0], (epochs, course.epochs_s), look=look, dashed=dashed, label=label)
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 0].set_xticks(range(1, 1 + len(measured[0].real.epochs_s)))
    axes[0, 0].set_xlabel("epoch")
    axes[0, 0].set_ylabel("seconds")
    entitle(axes[0, 0], "Two of eight workers killed in the first epoch")
    legend_below(figure, axes[0, 0], columns=2)
    return figure
