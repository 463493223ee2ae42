"""One run for the terminal, over or not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from elastune.core.commands import Ending
from elastune.core.events import Config
from elastune.history.hopping import HoppingFigures
from elastune.history.result import BestTrial
from elastune.history.status import RunStatus
from elastune.job.job import Job
from elastune.job.policy_choice import choose, choose_policy
from elastune.journal.run_commands import sweep_command
from elastune.journal.run_folders import RunFolder
from elastune.model.configuration import flattened
from elastune.providers.ray_cluster import FinalCheck
from elastune.views.run_tables import failure_table, note_table, promise_table, round_table, stage_table
from elastune.views.table import fact_table, terminal_table
from elastune.wording import format_duration, format_percent, plural, several

_BARS = " ▁▂▃▄▅▆▇█"
_SPARK_CELLS = 48
_MOST_FAILURES = 5
_MOST_NOTES = 8
_FIRST_ROUNDS, _LAST_ROUNDS = 4, 8
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_ENDINGS = {
    Ending.COMPLETE: "complete",
    Ending.TARGET: "reached the target",
    Ending.DEADLINE: "stopped at the deadline",
    Ending.BUDGET: "stopped at the budget",
    Ending.STOPPED: "stopped by request",
    Ending.FAILED: "failed: no trial is left, or no node was available",
}


def account(standing: RunStatus, so_far: str, *, last_notes: bool = False) -> Iterator[RenderableType]:
    """One run below its headline. `so_far` is the heading of the actual values; of many notes the first
    or the last are shown."""
    if standing.shortfall is not None:
        yield Text(standing.shortfall, "bold red")
    yield terminal_table(promise_table(standing, so_far))
    if standing.conceded:
        yield Text(f"given up: the {' and the '.join(standing.conceded)}", "yellow")
    yield fact_table(_facts(standing))
    if standing.ending is None:
        yield fact_table([("nodes now", _describe_nodes(standing))])
    yield from hopping_parts(standing)
    if standing.stages:
        yield terminal_table(stage_table(standing))
    if standing.failures:
        yield terminal_table(failure_table(standing.failures, _MOST_FAILURES))
    if standing.remarks:
        yield terminal_table(note_table(standing.remarks, _MOST_NOTES, last=last_notes))


def _facts(standing: RunStatus) -> Iterator[tuple[str, str | Text]]:
    """The best model, the trials, the cluster."""
    if standing.startup_s:
        yield "start-up", startup_words(standing)
    yield "best", describe_best(standing.best, standing.metric)
    trials = ", ".join(f"{count:,} {phase}" for phase, count in standing.phases.items())
    count = f"{standing.trials:,}" + (f": {trials}" if trials else "")
    yield "trials", f"{count}; {plural(standing.iterations, 'iteration')} in all"
    peak = max(nodes for _, nodes in standing.growth)
    if peak:
        line = Text(sparkline(standing.growth, standing.actual.jct_seconds))
        line.append(f"  at most {peak} at once")
        yield "nodes", line
    if standing.down_s:
        times = sum(note.down_s > 0.0 for note in standing.remarks)
        down = f"down {plural(times, 'time')}, {format_duration(standing.down_s)} in all"
        yield "driver", f"{down}; the run's clock stood still, its nodes were billed"
    for warning in standing.warnings:
        yield "warning", Text(warning, "bold yellow")


def startup_words(standing: RunStatus) -> str:
    took, left_s = format_duration(standing.startup_s), standing.limits.deadline_s
    if left_s is None:
        return f"{took} before the run"
    whole = format_duration(left_s + standing.startup_s)
    return f"{took} before the run, of the deadline of {whole}, which counts from the command"


def describe_best(best: BestTrial | None, metric: str) -> Text:
    if best is None:
        return Text("none: no trial has a checkpoint")
    text = Text.assemble(f"{metric} ", (f"{best.metric:.5g}", "bold green"))
    text.append(f" after {plural(best.iterations, 'iteration')}: trial {best.trial}")
    text.append(f" ({format_config(best.config)})" if best.config else "", "dim")
    return text


def format_config(config: Config) -> str:
    def show(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name}={show(value)}" for name, value in flattened(config).items())


def sparkline(growth: Sequence[tuple[float, int]], end_s: float, cells: int = _SPARK_CELLS) -> str:
    """Nodes over the run; each cell is the mean of its span, and more than zero is visible."""
    peak = max(nodes for _, nodes in growth)
    if not peak or end_s <= 0.0:
        return ""
    held = [0.0] * cells
    width = end_s / cells
    for (begin, nodes), (until, _) in itertools.pairwise([*growth, (end_s, 0)]):
        for cell in range(int(begin / width), min(cells, int(until / width) + 1)):
            overlap = min(until, (cell + 1) * width) - max(begin, cell * width)
            held[cell] += max(0.0, overlap) / width * nodes
    top = len(_BARS) - 1
    return "".join(_BARS[max(round(each / peak * top), int(each > 0.0))] for each in held)


def _describe_nodes(standing: RunStatus) -> str:
    now = standing.nodes
    others = ((now.booting, "booting"), (now.requested, "requested"))
    return ", ".join([f"{now.ready} up", *(f"{count} {word}" for count, word in others if count)])


def hopping_parts(standing: RunStatus) -> Iterator[RenderableType]:
    if standing.hopping is not None:
        yield fact_table(hopping_facts(standing.hopping))
        yield terminal_table(round_table(standing.hopping, _FIRST_ROUNDS, _LAST_ROUNDS))


def hopping_facts(hopping: HoppingFigures) -> Iterator[tuple[str, str]]:
    yield "visits", _describe_visits(hopping)
    if hopping.utilisation is not None:
        around = (hopping.occupied_s - hopping.training_s) / hopping.up_s
        busy = f"{format_percent(hopping.utilisation)} of the time for which they were up"
        busy += f", {around:.1%} went to bringing and saving models" if around > 0.0 else ""
        yield "workers", f"trained {busy}{_describe_gap(hopping)}"
    moved = f"{plural(hopping.hops, 'time')} a model came from another worker"
    if hopping.moved_bytes is not None and hopping.formula_bytes is not None:
        formula = format_bytes(hopping.formula_bytes)
        moved += f", {format_bytes(hopping.moved_bytes)} in all; {formula} if every visit were a hop"
    yield "hops", moved
    if hopping.loads:
        loads = f"partitions read {plural(hopping.loads, 'time')}, in {format_duration(hopping.load_s)}"
        yield "data", f"{loads} of the workers' time"


def _describe_gap(hopping: HoppingFigures) -> str:
    """Disturbed rounds have no lower bound."""
    if hopping.gap is None:
        return ""
    known = sum(each.bound_s is not None for each in hopping.rounds)
    which = "rounds" if known == len(hopping.rounds) else plural(known, "undisturbed round")
    return f"; {which} took {max(0.0, hopping.gap):.1%} more than their lower bound"


def _describe_visits(hopping: HoppingFigures) -> str:
    rounds = sum(each.manner == "hopping" for each in hopping.rounds)
    text = f"{hopping.visits:,} to {plural(hopping.partitions, 'partition')} in {plural(rounds, 'round')}"
    if hopping.validation_partitions:
        text = (
            f"{hopping.visits:,} in {plural(rounds, 'round')}: {hopping.visits - hopping.evaluations:,} to "
            f"{plural(hopping.partitions, 'partition')}, {hopping.evaluations:,} to "
            f"{hopping.validation_partitions:,} of the validation data"
        )
    together = len(hopping.rounds) - rounds
    text += f"; {plural(together, 'time')} one model on all workers" if together else ""
    return text + (f"; {hopping.repeated:,} repeated after a loss or a crash" if hopping.repeated else "")


def format_bytes(count: float) -> str:
    """`812 B`, `1.23 MB`: powers of ten, three digits."""
    for unit in _UNITS[:-1]:
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000.0
    return f"{count:.3g} {_UNITS[-1]}"


def policy_reason(job: Job, policy: str) -> str:
    return str(choose(job, None if policy == choose_policy(job) else policy))


def describe_ending(ending: Ending) -> str:
    return _ENDINGS[ending]


def describe_outcome(standing: RunStatus) -> str:
    """How a run ended; if it failed, why."""
    if standing.ending is None:
        return "not ended"
    if standing.cause is not None:
        return f"failed: {standing.cause}"
    if standing.has_failed and standing.failures:
        first = standing.failures[0]
        return f"failed, {first.trials} of {plural(standing.trials, 'trial')} with {first.error}"
    return describe_ending(standing.ending)


def describe_faults(faults: str | None, within: str = ", {}") -> str:
    """Empty if there were none; `within` is a format for the words."""
    if faults in (None, "none"):
        return ""
    return within.format(f"faults {faults}" if "=" in str(faults) else f"{faults} faults")


def describe_final_check(final_check: FinalCheck, folder: RunFolder) -> Text:
    return Text(final_check_words(final_check, folder), "bold red" if final_check.left else "")


def final_check_words(final_check: FinalCheck, folder: RunFolder) -> str:
    if not final_check.left:
        return f"no nodes left running ({final_check.how})"
    left = f"{plural(len(final_check.left), 'node')} may be running and cost money"
    return f"{left}: {several(final_check.left)} ({final_check.how}); `{sweep_command(folder)}` ends them"
