"""`python -m benchmarks.policies [name ...] [--seeds N] [--processes P]`, and the options of `tables`.

Without names all but `real`, which takes two minutes per run and policy.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from pathlib import Path

from benchmarks.policies import (
    allocation,
    decisions,
    entrance,
    page,
    profiling,
    real,
    sensitivity,
    speculative,
    tables,
)
from benchmarks.policies.contestants import CONTESTANTS
from benchmarks.policies.curves import NoDataError, held_out_tables, real_tables, surrogate_tables
from benchmarks.policies.scaling import BATCHES
from benchmarks.policies.settings import all_cells
from benchmarks.policies.simulating import Effort
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

# By experiment: as many as its runs are cheap.
SEEDS = {
    "speculative": 20,
    "entrance": 20,
    "allocation": 100,
    "profiling": 100,
    "sensitivity": 100,
    "tables": 20,
    "decisions": 3,
    "real": 5,
}
RUN = {
    "speculative": speculative.run,
    "entrance": entrance.run,
    "allocation": allocation.run,
    "profiling": profiling.run,
    "sensitivity": sensitivity.run,
}
_SOME_TABLES = {
    "real": real_tables,
    "held-out": held_out_tables,
    "surrogates": surrogate_tables,
}


def options_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policies", add_help=False)
    parser.add_argument("--help", action="help")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--processes", type=int, default=1)
    some = parser.add_argument_group(
        "tables", "Names are separated by semicolons. Runs that are in the results folder are not repeated."
    )
    some.add_argument("--tables", help=f"real, held-out, surrogates, or names: {'; '.join(real_tables())}")
    some.add_argument("--laws", help="; ".join(BATCHES))
    some.add_argument("--cells", help="trainings x slots, such as 0.25x4; 1x16+boots; or all")
    some.add_argument("--contestants", help="; ".join(each.name for each in CONTESTANTS))
    some.add_argument("--full", action="store_true", help="all tables, laws, cells and contestants")
    some.add_argument("--results", type=Path, help="where results are kept, one file per contestant")
    some.add_argument("--write", type=Path, default=RESULTS / "policies", help="where reports are written")
    some.add_argument("--report-only", action="store_true", help="no further runs")
    some.add_argument(
        "--name", default="tables", help="what the files and sections of this comparison begin with"
    )
    some.add_argument("--page", type=Path, help="write the tables into the marked sections of this page")
    return parser


def choice_of(options: argparse.Namespace) -> tables.Choice:
    choice = tables.Choice.everything() if options.full else tables.Choice()
    given: dict[str, object] = {"measures": not options.report_only}
    if options.tables:
        some = _SOME_TABLES.get(options.tables)
        given["tables"] = some() if some else _names(options.tables)
    for name in ("laws", "cells", "contestants"):
        if written := getattr(options, name):
            given[name] = _names(written)
    if given.get("cells") == ("all",):
        given["cells"] = [str(cell) for cell in all_cells()]
    if options.results:
        given["results"] = options.results
    return dataclasses.replace(choice, **given)  # type: ignore[arg-type]  # by name


def _names(written: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in written.split(";"))


def main(arguments: list[str]) -> None:
    options, names = options_parser().parse_known_args(arguments)

    def effort(name: str) -> Effort:
        return Effort(seeds=options.seeds or SEEDS[name], processes=options.processes)

    compare = functools.partial(tables.run, effort=effort("tables"), choice=choice_of(options))
    into_page: dict[str, Experiment] = {
        "tables": page.renamed(compare, options.name),
        "decisions": functools.partial(decisions.run, repeats=effort("decisions").seeds),
        "real": functools.partial(
            real.run,
            seeds=effort("real").seeds,
            results=options.results or tables.DEFAULT_RESULTS,
            policies=_names(options.contestants) if options.contestants else real.POLICIES,
            measures=not options.report_only,
        ),
    }
    if options.page is not None:
        into_page = {name: page.filling(run, options.page) for name, run in into_page.items()}
    experiments = {name: functools.partial(run, effort=effort(name)) for name, run in RUN.items()} | into_page
    try:
        run_named(experiments, options.write, names or [name for name in experiments if name != "real"])
    except (NoDataError, ValueError) as reason:
        sys.exit(f"skipped: {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
