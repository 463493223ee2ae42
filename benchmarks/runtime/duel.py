"""Both sides in turns in one process, on one Ray: `python -m benchmarks.runtime.duel JSON`.

A script for the interpreter that has Ray Tune. `arena` writes the JSON; the last line of the output is, for
each round, a list of what every bout gave.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import sys
import time
from typing import Any

import ray
import ray.util

_PATIENCE_S = 60.0
_MOST_S = 600.0
"""A measurement that takes longer hangs: where, is printed, and all ends."""


def main(text: str) -> list[list[dict[str, float]]]:
    asked = json.loads(text)
    cpus = asked["cpus"]
    ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        rounds = []
        for _ in range(asked["rounds"]):
            answers = []
            for bout in asked["bouts"]:
                settle(cpus)
                answers.append(_carry_out(bout))
            rounds.append(answers)
        return rounds
    finally:
        ray.shutdown()


def settle(cpus: int) -> None:
    """Wait until nobody uses the cluster and a worker process per CPU stands ready, as in a Ray just started.

    The last run's actors ended, and their processes with them; whoever comes next would have to wait for
    new ones.
    """
    _remove_placement_groups()
    until = time.monotonic() + _PATIENCE_S
    while ray.available_resources().get("CPU", 0.0) < cpus:
        if time.monotonic() > until:
            raise RuntimeError(f"after {_PATIENCE_S:g} s the CPUs are not free: {_who_is_alive()}")
        time.sleep(0.1)
    nap = ray.remote(num_cpus=1)(_nap)
    ray.get([nap.remote() for _ in range(cpus)])


def _remove_placement_groups() -> None:
    """Tune 2.60 leaves some behind now and then where actors are used again, and with them their CPUs."""
    for name, group in ray.util.placement_group_table().items():
        if group["state"] != "REMOVED":
            left = ray.util.placement_group.PlacementGroup(ray.PlacementGroupID.from_hex(name))
            ray.util.remove_placement_group(left)


def _who_is_alive() -> str:
    from ray._private.state import actors  # noqa: PLC0415  for an error message only

    alive = [actor for actor in actors().values() if actor["State"] != "DEAD"]
    return f"{ray.available_resources()}, actors {alive}"


def _nap() -> None:
    """Long enough that no worker takes two."""
    time.sleep(1.0)


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
