"""`python -m benchmarks.placement [name ...]`."""

from __future__ import annotations

import sys

from benchmarks.placement import epochs
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

EXPERIMENTS: dict[str, Experiment] = {"epochs": epochs.run}

if __name__ == "__main__":
    run_named(EXPERIMENTS, RESULTS / "placement", sys.argv[1:])
