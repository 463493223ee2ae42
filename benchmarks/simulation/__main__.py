"""`python -m benchmarks.simulation [--peer-python PATH] [name ...]`."""

from __future__ import annotations

import argparse
import functools
import sys

from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named
from benchmarks.simulation import side_by_side, stages
from benchmarks.simulation.curves import NoDataError

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peer-python", help="the interpreter of an environment with syne-tune")
    options, names = parser.parse_known_args(sys.argv[1:])
    experiments: dict[str, Experiment] = {
        "syne-tune": functools.partial(side_by_side.run, peer_python=options.peer_python),
        "stages": stages.run,
    }
    try:
        run_named(experiments, RESULTS / "simulation", names)
    except NoDataError as reason:
        sys.exit(f"skipped: {reason}")
