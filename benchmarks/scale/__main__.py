"""`python -m benchmarks.scale [name ...]`; `one NAME VALUE` measures a single step and prints it as JSON."""

from __future__ import annotations

import json
import sys

from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named
from benchmarks.scale import journals, large_run, plans, simulations
from benchmarks.scale.growth import Subject, measured_here, run_group

GROUPS: dict[str, tuple[Subject, ...]] = {
    "plans": plans.SUBJECTS,
    "simulations": simulations.SUBJECTS,
    "journals": journals.SUBJECTS,
}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["one"]:
        name, value = arguments[1], int(arguments[2])
        (subject,) = (each for group in GROUPS.values() for each in group if each.name == name)
        print(json.dumps(measured_here(subject, value)))
        return
    experiments: dict[str, Experiment] = {name: run_group(name, group) for name, group in GROUPS.items()}
    experiments["large-run"] = large_run.run
    run_named(experiments, RESULTS / "scale", arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
