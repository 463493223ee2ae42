"""`python -m benchmarks.hopper [name ...]`."""

from __future__ import annotations

import sys

from benchmarks.hopper import replicas, schedules
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

EXPERIMENTS: dict[str, Experiment] = {"schedules": schedules.run, "replicas": replicas.run}

if __name__ == "__main__":
    run_named(EXPERIMENTS, RESULTS / "hopper", sys.argv[1:])
