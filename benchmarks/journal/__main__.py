"""`python -m benchmarks.journal [name ...]`. PostgreSQL is measured where tests can start a server."""

from __future__ import annotations

import sys

from benchmarks.journal import appending
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

EXPERIMENTS: dict[str, Experiment] = {"appending": appending.run}

if __name__ == "__main__":
    run_named(EXPERIMENTS, RESULTS / "journal", sys.argv[1:])
