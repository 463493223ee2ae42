"""`python -m benchmarks.hopper [name ...]`; `all`, or no name, runs everything."""

from __future__ import annotations

import sys

from benchmarks.hopper import (
    accuracy,
    faults,
    learning,
    memory,
    paper,
    policies,
    prediction,
    remote,
    replicas,
    rounds,
    schedules,
    throughput,
    unequal,
    visits,
)
from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named

# Those with torch come last: once this process has it, the workers of every run load it.
EXPERIMENTS: dict[str, Experiment] = {
    "schedules": schedules.run,
    "replicas": replicas.run,
    "rounds": rounds.run,
    "paper": paper.run,
    "prediction": prediction.run,
    "policies": policies.run,
    "faults": faults.run,
    "visits": visits.run,
    "memory": memory.run,
    "remote": remote.run,
    "unequal": unequal.run,
    "throughput": throughput.run,
    "accuracy": accuracy.run,
    "learning": learning.run,
    "converging": learning.run_without_times,
}

if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "all"]
    run_named(EXPERIMENTS, RESULTS / "hopper", names)
