"""How well the models hopped, in words and as a table: for terminals and for pages."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from elastune.reports.tables import fact_table, number_table, titled
from elastune.runs.history.hopping import Hopping, RoundFigures
from elastune.runs.standing import Standing
from elastune.units import format_duration, format_percent, plural

ROUND_COLUMNS = ("round", "epoch", "trials", "workers", "time", "busy", "above bound", "visits", "repeated")
_MOST_ROUNDS = 12
_FIRST_ROUNDS = 4
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def hopping_parts(standing: Standing) -> Iterator[RenderableType]:
    """Nothing, where no model hops."""
    if standing.hopping is not None:
        yield _facts(standing.hopping)
        yield round_table(standing.hopping)


def _facts(hopping: Hopping) -> Table:
    rows = fact_table()
    for name, told in tell_hopping(hopping):
        rows.add_row(name, told)
    return rows


def tell_hopping(hopping: Hopping) -> Iterator[tuple[str, str]]:
    """A word and what there is to say about it."""
    yield "visits", _tell_visits(hopping)
    if hopping.utilisation is not None:
        around = (hopping.occupied_s - hopping.training_s) / hopping.up_s
        busy = f"{format_percent(hopping.utilisation)} of the time for which they were up"
        busy += f", {around:.1%} went to bringing and saving models" if around > 0.0 else ""
        yield "workers", f"trained {busy}{_tell_gap(hopping)}"
    moved = f"{plural(hopping.hops, 'time')} a model came from another worker"
    if hopping.moved_bytes is not None and hopping.formula_bytes is not None:
        moved += (
            f", {tell_bytes(hopping.moved_bytes)} in all; {tell_bytes(hopping.formula_bytes)} if every visit "
            "were a hop"
        )
    yield "hops", moved
    if hopping.loads:
        loads = f"partitions read {plural(hopping.loads, 'time')}, in {format_duration(hopping.load_s)}"
        yield "data", f"{loads} of the workers' time"


def _tell_gap(hopping: Hopping) -> str:
    """Of rounds that were disturbed nobody knows what they must take."""
    if hopping.gap is None:
        return ""
    known = sum(each.bound_s is not None for each in hopping.rounds)
    which = "rounds" if known == len(hopping.rounds) else plural(known, "undisturbed round")
    return f"; {which} took {max(0.0, hopping.gap):.1%} more than they must"


def _tell_visits(hopping: Hopping) -> str:
    rounds = sum(each.manner == "hopping" for each in hopping.rounds)
    told = f"{hopping.visits:,} to {plural(hopping.partitions, 'partition')} in {plural(rounds, 'round')}"
    if hopping.validation_partitions:
        told = (
            f"{hopping.visits:,} in {plural(rounds, 'round')}: {hopping.visits - hopping.evaluations:,} to "
            f"{plural(hopping.partitions, 'partition')}, {hopping.evaluations:,} to "
            f"{hopping.validation_partitions:,} of the validation data"
        )
    together = len(hopping.rounds) - rounds
    told += f"; {plural(together, 'time')} one model on all workers" if together else ""
    if hopping.repeated:
        told += f"; {hopping.repeated:,} begun again after a loss or a crash"
    return told


def round_table(hopping: Hopping) -> RenderableType:
    """The first and the last ones, if there are many."""
    rounds = list(enumerate(hopping.rounds, 1))
    table = number_table(ROUND_COLUMNS, gap=1)
    last = _MOST_ROUNDS - _FIRST_ROUNDS
    is_cut = len(rounds) > _MOST_ROUNDS
    for number, each in rounds[:_FIRST_ROUNDS] if is_cut else rounds:
        table.add_row(*round_cells(number, each))
    if is_cut:
        table.add_row("…")
        for number, each in rounds[-last:]:
            table.add_row(*round_cells(number, each))
    left_out = f", {len(rounds) - _MOST_ROUNDS:,} of {len(rounds):,} left out" if is_cut else ""
    return titled(f"Rounds{left_out}", table)


def round_cells(number: int, each: RoundFigures) -> Iterator[str]:
    """One per column of `ROUND_COLUMNS`."""
    first, last = each.first_iteration, each.last_iteration
    yield f"{number}"
    yield f"{first}" if first == last else f"{first}-{last}"
    yield f"{each.trials:,}"
    yield f"{each.workers:,}"
    yield format_duration(each.seconds)
    yield "" if each.utilisation is None else f"{each.utilisation:.0%}"
    yield "" if each.gap is None else f"{max(0.0, each.gap):.1%}"
    yield f"{each.visits:,}" if each.manner == "hopping" else each.manner
    yield f"{each.repeated:,}" if each.repeated else ""


def tell_bytes(count: float) -> str:
    """`812 B`, `1.23 MB`: powers of ten, three digits."""
    for unit in _UNITS[:-1]:
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000.0
    return f"{count:.3g} {_UNITS[-1]}"
