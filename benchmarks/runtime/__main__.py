"""`python -m benchmarks.runtime [--peer-python PATH] [--repeats N] [name ...]`."""

from __future__ import annotations

import argparse
import functools
import sys

from benchmarks.reporting import RESULTS, Experiment
from benchmarks.running import run_named
from benchmarks.runtime import boots, evenness, fidelity, promises, reports, resizing, trials

REPEATS = 3

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peer-python", help="the interpreter of an environment with elastune and ray[tune]")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options, names = parser.parse_known_args(sys.argv[1:])
    beside = {"peer_python": options.peer_python, "repeats": options.repeats}
    experiments: dict[str, Experiment] = {
        "trials": functools.partial(trials.run, **beside),
        "resizing": functools.partial(resizing.run, **beside),
        "reports": functools.partial(reports.run, **beside),
        "evenness": functools.partial(evenness.run, **beside),
        "boots": functools.partial(boots.run, repeats=options.repeats),
        "fidelity": fidelity.run,
        "digits": promises.digits,
        "sleeping": promises.sleeping,
        "differing": promises.differing,
        "differing-fixed": promises.differing_fixed,
    }
    run_named(experiments, RESULTS / "runtime", names)
