"""This machine as a cluster: a job without one runs here, on one node that costs nothing, and so does a job
with a fixed number of local nodes (`nodes: 1`) and no price.

Its slots are the GPUs, if there are any and the job does not ask for CPUs, else the cores. What is found is
part of the job from then on, so a resumed run has the same slots.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from elastune.job.section import MisfitError
from elastune.model.quantities import parse_number
from elastune.wording import plural

BOOT = "5s"
"""Of the local node of a job that has a profile and no `cluster`; a quote without it leaves out what every
run waits for."""

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_GPUS = Path("/proc/driver/nvidia/gpus")


def count_cores() -> int:
    """The cores that this process may use, as limited by its affinity and its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        cores = min(cores, -(-int(quota) // int(period)))
    except (OSError, ValueError):  # no container, or none with a limit
        pass
    return max(1, cores)


def count_gpus() -> int:
    """The NVIDIA GPUs that this process may use, without loading a library for them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        there = len(list(_GPUS.iterdir()))
    except OSError:
        there = 0
    if visible is None:
        return there
    return min(there, len([each for each in visible.split(",") if each.strip() not in ("", "-1")]))


def on_this_machine(sections: Mapping[str, object]) -> dict[str, object]:
    """The cluster, and perhaps the slot, for a job whose cluster is this machine; else nothing."""
    written = sections.get("cluster")
    cluster = {"nodes": 1} if written is None else written
    if not isinstance(cluster, Mapping) or cluster.get("provider", "local") != "local":
        return {}
    if cluster.get("nodes") is None or cluster.get("price_per_hour") is not None or cluster.get("kinds"):
        return {}
    found: dict[str, object] = {"price_per_hour": 0.0}
    if written is None and sections.get("profile") is not None:
        found["init"] = BOOT
    slot = sections.get("slot")
    if slot is None and cluster.get("slots_per_node") is None and count_gpus():
        slot = {"gpus": 1}
    if (slots := _slots(slot)) is not None:
        found["slots_per_node"] = slots
    given = {key: value for key, value in cluster.items() if value is not None}
    return {"cluster": {**found, **given}, **({} if slot is None else {"slot": slot})}


def _slots(slot: object) -> int | None:
    """How many slots this machine has; None: the slot is written wrongly, which is reported elsewhere."""
    gpus, cpus = (
        parse_number(slot.get(unit)) if isinstance(slot, Mapping) else getattr(slot, unit, None)
        for unit in ("gpus", "cpus")
    )
    if gpus:
        return max(1, int(count_gpus() // gpus))
    return max(1, int(count_cores() // (cpus or 1)))


def refuse_budget(budget: object) -> MisfitError:
    """For a budget on this machine, which has no price."""
    return MisfitError(
        ("budget",),
        f"is {budget}, but the job runs on this machine, which costs nothing; leave it out, or give a price, "
        f"such as cluster: {{nodes: 1, slots_per_node: {count_cores()}, price_per_hour: 1.50}}",
    )


def describe_crowding(slots: int, cpus_per_slot: int, cores: int | None = None) -> str | None:
    """A warning if slots at work at the same time have to share cores (None: this machine's); None: each has
    its own."""
    cores = count_cores() if cores is None else cores
    needed = slots * cpus_per_slot
    if needed <= cores:
        return None
    each = plural(cpus_per_slot, "CPU")
    return (
        f"{plural(slots, 'slot')} of {each} share {plural(cores, 'core')}: an iteration may take "
        f"{needed / cores:.1f} times as long as on a core of its own; {max(1, cores // cpus_per_slot)} or "
        "fewer slots do not slow each other down"
    )
