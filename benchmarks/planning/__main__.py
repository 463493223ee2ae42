"""`python -m benchmarks.planning [name ...]`."""

from __future__ import annotations

import sys

from benchmarks.planning import growth, quality, speed, unequal
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

EXPERIMENTS: dict[str, Experiment] = {
    "quality": quality.run,
    "speed": speed.run,
    "growth": growth.run,
    "unequal": unequal.run,
}

if __name__ == "__main__":
    run_named(EXPERIMENTS, RESULTS / "planning", sys.argv[1:])
