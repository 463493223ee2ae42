"""`python -m benchmarks.policies [name ...] [--seeds N] [--processes P]`."""

from __future__ import annotations

import argparse
import functools
import sys

from benchmarks.policies import allocation, entrance, profiling, sensitivity, speculative, tables
from benchmarks.policies.curves import NoDataError
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
    "tables": 1,
}
RUN = {
    "speculative": speculative.run,
    "entrance": entrance.run,
    "allocation": allocation.run,
    "profiling": profiling.run,
    "sensitivity": sensitivity.run,
    "tables": tables.run,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--processes", type=int, default=1)
    options, names = parser.parse_known_args(sys.argv[1:])
    experiments: dict[str, Experiment] = {
        name: functools.partial(
            run, effort=Effort(seeds=options.seeds or SEEDS[name], processes=options.processes)
        )
        for name, run in RUN.items()
    }
    try:
        run_named(experiments, RESULTS / "policies", names)
    except NoDataError as reason:
        sys.exit(f"skipped: {reason}")
