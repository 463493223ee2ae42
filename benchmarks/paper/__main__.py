"""`python -m benchmarks.paper [name ...] [--seeds N]`: without names, all but `real`, which takes long."""

from __future__ import annotations

import argparse
import functools
import sys

from benchmarks.paper import data_price, end_to_end, init_latency, job_size, placement, real, stragglers
from benchmarks.policies.curves import NoDataError
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

EXPERIMENTS: dict[str, Experiment] = {
    "stragglers": stragglers.run,
    "data-price": data_price.run,
    "job-size": job_size.run,
    "init-latency": init_latency.run,
    "end-to-end": end_to_end.run,
    "placement": placement.run,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, default=real.SEEDS)
    options, names = parser.parse_known_args(sys.argv[1:])
    trained: dict[str, Experiment] = {"real": functools.partial(real.run, seeds=options.seeds)}
    try:
        run_named(EXPERIMENTS | trained, RESULTS / "paper", names or list(EXPERIMENTS))
    except NoDataError as reason:
        sys.exit(f"skipped: {reason}")
