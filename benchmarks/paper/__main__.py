"""`python -m benchmarks.paper [name ...]`."""

from __future__ import annotations

import sys

from benchmarks.paper import data_price, end_to_end, init_latency, job_size, stragglers
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

EXPERIMENTS: dict[str, Experiment] = {
    "stragglers": stragglers.run,
    "data-price": data_price.run,
    "job-size": job_size.run,
    "init-latency": init_latency.run,
    "end-to-end": end_to_end.run,
}

if __name__ == "__main__":
    run_named(EXPERIMENTS, RESULTS / "paper", sys.argv[1:])
