"""How planning time grows with the stages, the nodes and the trials of a job, one at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from benchmarks.paper.setting import RESNET50, p3_8xlarge, sha
from benchmarks.planning.contestants import CONTESTANTS, fresh_case
from benchmarks.planning.timing import median_s
from benchmarks.plotting import LOOKS, draw_series, grid_of_axes, legend_below, plain_ticks
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.model.distributions import Constant, Normal
from elastune.model.limits import Limits
from elastune.model.profile import Profile
from elastune.model.stages import Spec, Stage
from elastune.planning.problem import Problem

PLANNED = ("greedy", "exact")
ITERATION_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What grows, over which values, and the job at one of them."""

    label: str
    values: tuple[int, ...]
    job: Callable[[int], tuple[Spec, int]]


def staged(stages: int) -> Spec:
    """64 trials falling to one over so many stages, 512 iterations in all."""
    falls = (round(64 ** (1 - i / (stages - 1))) for i in range(stages))
    return Spec(
        name="staged",
        stages=tuple(Stage(trials=trials, iterations=max(1, 512 // stages)) for trials in falls),
    )


AXES = (
    Axis(label="stages", values=(2, 4, 8, 16, 24), job=lambda n: (staged(n), 64)),
    Axis(label="nodes", values=(16, 32, 64, 128, 256, 512), job=lambda n: (sha(512, 4, 4096), n)),
    Axis(label="trials", values=(32, 128, 512, 2048), job=lambda n: (sha(n, 4, 4096), 256)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Processor seconds from a problem to a plan."""

    axis: str
    value: int
    latencies: str
    planner: str
    seconds: float


def problem_with(spec: Spec, max_nodes: int, *, noisy: bool) -> Problem:
    """A deadline of twice the longest chain of iterations on the largest gang, plus a quarter of an hour."""
    chain_s = sum(stage.iterations for stage in spec.stages) * ITERATION_S / RESNET50.at(RESNET50.largest)
    iteration = Normal(ITERATION_S, 0.1 * ITERATION_S) if noisy else Constant(ITERATION_S)
    return Problem(
        specs=(spec,),
        profile=Profile(iteration=iteration, speedup=RESNET50, spread=0.05 if noisy else 0.0),
        cluster=p3_8xlarge(max_nodes=max_nodes, queue_s=15.0, init_s=15.0),
        limits=Limits(deadline_s=2 * chain_s + 900.0),
    )


def measure(track: Track = silently, *, axes: Sequence[Axis] = AXES) -> list[Timing]:
    settings = [(axis, value, noisy) for axis in axes for value in axis.values for noisy in (False, True)]
    timings = []
    for (axis, value, noisy), name in track([(s, name) for s in settings for name in PLANNED]):
        problem = problem_with(*axis.job(value), noisy=noisy)
        seconds = median_s(functools.partial(_same, problem), functools.partial(_plan, name))
        timings.append(
            Timing(
                axis=axis.label,
                value=value,
                latencies="random" if noisy else "constant",
                planner=name,
                seconds=seconds,
            )
        )
    return timings


def _same(problem: Problem) -> Problem:
    return problem


def _plan(planner: str, problem: Problem) -> None:
    if CONTESTANTS[planner](fresh_case(problem)) is None:
        raise AssertionError(f"{planner} has no plan for {problem}")


def run(track: Track = silently) -> Report:
    timings = measure(track)
    return Report(tables=(_table(timings),), figures={"growth": _draw(timings)})


def _table(timings: Sequence[Timing]) -> Table:
    found = {(t.axis, t.value, t.latencies, t.planner): t.seconds for t in timings}
    columns = [(latencies, planner) for latencies in ("constant", "random") for planner in PLANNED]
    rows: list[tuple[Cell, ...]] = [
        (axis.label, value, *(found[axis.label, value, *column] for column in columns))
        for axis in AXES
        for value in axis.values
    ]
    return Table(
        name="growth",
        title="Processor seconds from a job to its plan, as one thing grows",
        header=("what grows", "value", *(f"{planner}, {latencies} s" for latencies, planner in columns)),
        rows=tuple(rows),
        note="stages: 64 trials to 1, 64 nodes. nodes: SHA(512,4,4096). trials: SHA(n,4,4096), 256 nodes.",
    )


def _draw(timings: Sequence[Timing]) -> Figure:
    figure, axes = grid_of_axes(1, len(AXES), width=10.0, share_y="all")
    for panel, axis in zip(axes[0], AXES, strict=True):
        for planner in PLANNED:
            for latencies in ("constant", "random"):
                line = [
                    t for t in timings if (t.axis, t.planner, t.latencies) == (axis.label, planner, latencies)
                ]
                draw_series(
                    panel,
                    ([t.value for t in line], [t.seconds for t in line]),
                    look=LOOKS[planner],
                    dashed=latencies == "random",
                    label=f"{LOOKS[planner].label}, {latencies} latencies",
                )
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        plain_ticks(panel, axis.values)
        panel.set_xlabel(axis.label)
    axes[0, 0].set_ylabel("planning time [s] (log scale)")
    legend_below(figure, axes[0, 0], columns=2)
    return figure
