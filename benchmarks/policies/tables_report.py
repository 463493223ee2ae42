"""The tables of the comparison on recorded curves, as files and as the sections of `docs/policies.md`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from benchmarks.policies.contestants import CONTESTANTS, Group
from benchmarks.policies.evidence import Estimate, Evidence
from benchmarks.policies.settings import Terms
from benchmarks.policies.tables_figures import draw_cells, draw_means
from benchmarks.reporting import Cell, Report, Table

OURS = "forecast"
_GROUPS = {each.name: each.group for each in CONTESTANTS}
_OF = {each.name: each.of for each in CONTESTANTS if each.of is not None}


def report(evidence: Evidence) -> Report:
    names = ranked(evidence)
    if not names:
        return Report(tables=())
    leader = OURS if OURS in names else names[0]
    return Report(
        tables=(
            _main_table(evidence, names),
            _leads(evidence, leader, names),
            _by_table(evidence, names),
            _by_cell(evidence, names),
            *([_by_law(evidence, names)] if len(evidence.values_of("law")) > 1 else []),
            *([_variants(evidence)] if any(name in evidence.runs for name in _OF) else []),
        ),
        figures={
            "tables": draw_means(evidence, names, leader, counted(evidence)),
            "tables-budgets": draw_cells(evidence, names, counted(evidence)),
        },
    )


def ranked(evidence: Evidence) -> list[str]:
    """Those that are compared, the best first; without variants of them."""
    names = [name for name in evidence.runs if _GROUPS.get(name) is not Group.VARIANT]
    return sorted(names, key=lambda name: evidence.regret(name, counted(evidence)).mean)


def counted(evidence: Evidence) -> list[str]:
    """The tables that claims rest on; where there is none of them, all."""
    return evidence.held_out or evidence.tables


def _main_table(evidence: Evidence, names: Sequence[str]) -> Table:
    tables = counted(evidence)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        regret, (worst_table, worst) = evidence.regret(name, tables), evidence.worst_table(name, tables)
        rows.append(
            (
                name,
                f"{regret.mean:.1f}",
                interval(regret),
                error(regret),
                f"{evidence.rank(name, names, tables):.1f}",
                f"{worst_table}: {worst:.0f}",
                f"{evidence.mean_of(name, 'time_share', tables):.0%}",
                f"{evidence.mean_of(name, 'budget_share', tables):.0%}",
                f"{evidence.mean_of(name, 'trials', tables):.0f}",
                f"{evidence.mean_of(name, 'cpu_s', tables):.2f}",
            )
        )
    return Table(
        name="tables",
        title="Regret on recorded curves",
        header=(
            "policy", "regret %", "95 % interval", "se of seeds", "rank", "worst table",
            "time used", "budget used", "trials", "CPU s per run",
        ),
        rows=tuple(rows),
        note=describe(evidence),
    )  # fmt: skip


def describe(evidence: Evidence) -> str:
    tables, laws = counted(evidence), evidence.values_of("law")
    runs = sum(key.table in tables for key in evidence.keys)
    codes = {run.code for runs in evidence.runs.values() for run in runs.values()}
    few = [f"{name} ({count} runs)" for name, count in evidence.left_out.items()]
    return (
        f"{len(tables)} tables that no constant was chosen on; scaling of {', '.join(laws)}; cells "
        f"{', '.join(_cells(evidence))}; {_seeds(evidence)}, the same for all; {runs:,} runs each."
        + (f" Measured with {len(codes)} versions of the code." if len(codes) > 1 else "")
        + (f" Too few runs to be compared: {', '.join(few)}." if few else "")
    )


def _leads(evidence: Evidence, leader: str, names: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for other in (name for name in names if name != leader):
        lead = evidence.lead(leader, other, counted(evidence))
        rows.append(
            (
                other,
                f"{lead.by.mean:+.1f}",
                interval(lead.by, signed=True),
                error(lead.by),
                "yes" if lead.by.excludes_0 else "no",
                f"{lead.better} of {lead.tables}",
                f"{lead.worst_table}: {lead.worst:+.1f}",
            )
        )
    return Table(
        name="tables-leads",
        title=f"The lead of {leader}",
        header=(
            f"{leader} regrets less than", "by", "95 % interval", "se of seeds", "excludes 0", "better on",
            "its worst table",
        ),
        rows=tuple(rows),
        note="In points of regret; the interval is bootstrapped over tables.",
    )  # fmt: skip


def _by_table(evidence: Evidence, names: Sequence[str]) -> Table:
    parts = {
        "": evidence.held_out,
        " (development)": evidence.development,
        " (not real)": evidence.surrogates,
    }
    rows: list[tuple[Cell, ...]] = [
        (table + remark, *(f"{evidence.regret(name, [table]).mean:.1f}" for name in names))
        for remark, tables in parts.items()
        for table in tables
    ]
    return Table(name="tables-by-table", title="Regret by table", header=("table", *names), rows=tuple(rows))


def _by_cell(evidence: Evidence, names: Sequence[str]) -> Table:
    law = evidence.main_law
    cells = sorted(evidence.cells_of(law), key=Terms.parse)
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            *(f"{evidence.regret(name, counted(evidence), cell=cell, law=law).mean:.1f}" for cell in cells),
        )
        for name in names
    ]
    return Table(
        name="tables-cells",
        title="Regret by deadline and budget",
        header=("policy", *cells),
        rows=tuple(rows),
        note=f"1x16: a deadline of one complete training, a budget of 16 slots until then. Scaling of {law}.",
    )


def _by_law(evidence: Evidence, names: Sequence[str]) -> Table:
    """In the cells that all of them have."""
    laws = evidence.values_of("law")
    cells = sorted(set.intersection(*map(evidence.cells_of, laws)), key=Terms.parse)
    tables = counted(evidence)
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            *(
                f"{fmean(evidence.regret(name, tables, law=law, cell=cell).mean for cell in cells):.1f}"
                for law in laws
            ),
        )
        for name in names
        if cells
    ]
    return Table(
        name="tables-laws",
        title="Regret by scaling law",
        header=("policy", *laws),
        rows=tuple(rows),
        note=f"Cells {', '.join(cells)}.",
    )


def _variants(evidence: Evidence) -> Table:
    """What each change is worth; a gain is the variant's."""
    rows: list[tuple[Cell, ...]] = []
    for name, of in _OF.items():
        if name in evidence.runs and of in evidence.runs:
            lead = evidence.lead(name, of, counted(evidence))
            rows.append(
                (
                    name,
                    f"{evidence.regret(name, counted(evidence)).mean:.1f}",
                    f"{evidence.regret(of, counted(evidence)).mean:.1f}",
                    f"{lead.by.mean:+.1f}",
                    interval(lead.by, signed=True),
                    error(lead.by),
                )
            )
    return Table(
        name="tables-variants",
        title="With one thing changed",
        header=("variant", "regret %", "without the change", "gain", "95 % interval", "se of seeds"),
        rows=tuple(rows),
    )


def _seeds(evidence: Evidence) -> str:
    """Those of each cell, where they differ."""
    counts = defaultdict[int, list[str]](list)
    for law in evidence.values_of("law"):
        of = "" if law == evidence.main_law else f" ({law})"
        for cell in sorted(evidence.cells_of(law), key=Terms.parse):
            counts[evidence.seeds_of(law, cell)].append(cell + of)
    if len(counts) <= 1:
        return f"{next(iter(counts), 0)} seeds"
    return "; ".join(f"{seeds} seeds in {', '.join(counts[seeds])}" for seeds in sorted(counts, reverse=True))


def _cells(evidence: Evidence) -> list[str]:
    return sorted(evidence.values_of("cell"), key=Terms.parse)


def interval(estimate: Estimate, *, signed: bool = False) -> str:
    return (
        f"{estimate.low:+.1f} to {estimate.high:+.1f}"
        if signed
        else f"{estimate.low:.1f} to {estimate.high:.1f}"
    )


def error(estimate: Estimate) -> str:
    return "–" if math.isnan(estimate.se) else f"{estimate.se:.1f}"
