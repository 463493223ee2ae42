"""`python -m benchmarks.dashboard [name ...]`. Needs Chromium and playwright for `opening`."""

from __future__ import annotations

import sys

from benchmarks.dashboard import opening, quotes, watching
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

EXPERIMENTS: dict[str, Experiment] = {"opening": opening.run, "watching": watching.run, "quotes": quotes.run}

if __name__ == "__main__":
    run_named(EXPERIMENTS, RESULTS / "dashboard", sys.argv[1:])
