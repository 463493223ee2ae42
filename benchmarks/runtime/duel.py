"""Both sides in turns in one process, each on a Ray of its own: `python -m benchmarks.runtime.duel JSON`.

A script for the interpreter that has Ray Tune. `arena` writes the JSON; the last line of the output is, for
each round, a list of what every bout gave. On one Ray for all, the CPUs that Tune 2.60 fails to give back
where actors are used again (3 of 8 after 100 trials) would be missing in the next bout.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import sys
import time
from typing import Any

import ray

_SETTLE_S = 3.0
"""A Ray that has been started: its first workers are up, and the machine is quiet again."""
_MOST_S = 600.0
"""A measurement that takes longer hangs: where, is printed, and all ends."""


def main(text: str) -> list[list[dict[str, float]]]:
    asked = json.loads(text)
    return [[_on_a_new_ray(bout, asked["cpus"]) for bout in asked["bouts"]] for _ in range(asked["rounds"])]


def _on_a_new_ray(bout: dict[str, Any], cpus: int) -> dict[str, float]:
    ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        time.sleep(_SETTLE_S)
        return _carry_out(bout)
    finally:
        ray.shutdown()


def _carry_out(bout: dict[str, Any]) -> dict[str, float]:
    side = importlib.import_module(f"benchmarks.runtime.{bout['side']}")
    faulthandler.dump_traceback_later(_MOST_S, exit=True)
    try:
        numbers: dict[str, float] = getattr(side, bout["task"])(**bout["options"])
        return numbers
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
