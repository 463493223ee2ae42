"""What a job asks of this machine: cores for its slots, memory for its data, and the speed that it states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from elastune.checks.messages import SoloSeen
from elastune.checks.report import CheckFinding, fine, note, warning
from elastune.checks.sizes import HeldValue
from elastune.checks.source import find_place
from elastune.job.job import Job
from elastune.job.machine import describe_crowding
from elastune.training.shared_data import LARGE_BYTES
from elastune.wording import format_duration, several

MEMORY, SLOTS, SPEED = "memory", "slots", "speed"
# A stated time of an iteration may be wrong by this factor.
_WRONG = 2.0


def judge_slots(job: Job, cores: int) -> Iterator[CheckFinding]:
    """For nodes on this machine: more slots than cores slow each other down."""
    if job.slot.cpus is None:
        return
    crowding = describe_crowding(job.cluster.slots_per_node * job.cluster.most_nodes, job.slot.cpus, cores)
    if crowding is not None:
        yield warning(SLOTS, crowding)


def judge_memory(
    job: Job, user: object, carried: Sequence[HeldValue], pickled_bytes: int, solo: SoloSeen | None
) -> Iterator[CheckFinding]:
    """`carried` are large values in the globals, the closure or the arguments of the trainable."""
    slots = job.cluster.slots_per_node
    large = pickled_bytes >= LARGE_BYTES
    if large:
        names = f", most of it {_named(carried)}" if carried else ""
        text = f"{_megabytes(pickled_bytes)} are sent with the trainable to every slot{names}"
        name = carried[0].name if carried else "data"
        remedy = f"share one copy per node: {name} = elastune.shared({name})"
        yield warning(MEMORY, text, find_place(user), remedy)
    elif carried:
        text = (
            f"every slot and the driver hold {_named(carried)}; {slots} slots of a node hold {slots} copies"
        )
        yield warning(MEMORY, text, find_place(user), _loaded_once(carried))
    if solo is None or not solo.rows:
        return
    if solo.held:
        text = f"every slot holds {_named(solo.held)}, a node of {slots} slots {slots} times"
        yield warning(MEMORY, text, find_place(user), _loaded_once(solo.held))
    if not (large or carried or solo.held):
        own, shared = max(0, solo.peak_bytes - solo.shared_bytes), _megabytes(solo.shared_bytes)
        with_shared = f"; the slots of a node share {shared}" if solo.shared_bytes else ""
        text = f"a worker needs {_megabytes(own)}, its state {_megabytes(solo.state_bytes)}{with_shared}"
        yield fine(MEMORY, text)


def _named(values: Sequence[HeldValue]) -> str:
    return several((f"{each.name} ({_megabytes(each.bytes)})" for each in values), 3)


def _loaded_once(values: Sequence[HeldValue]) -> str:
    """For what every slot would load by itself before it could share it."""
    return (
        f"share one copy per node: load {values[0].name} in a function without arguments, with "
        "@elastune.shared in the line above its def, and call that function where the training uses it"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 10**6 else f"{size / 1e3:,.0f} kB"


def judge_speed(job: Job, solo: SoloSeen | None, *, is_here: bool) -> Iterator[CheckFinding]:
    """What was measured, and whether the job states something else."""
    measured = [] if solo is None else [each for each in solo.seconds if each is not None]
    if solo is None or not measured:
        return
    best = min(measured)
    took = f"start-up {format_duration(solo.startup_s)}, an iteration {format_duration(best)}"
    saved = f", a save {format_duration(solo.save_s)}" if solo.saves else ""
    stated = job.profile.iteration.mean if job.is_measured and job.profile is not None else None
    if stated is None or not is_here or stated / _WRONG <= best <= stated * _WRONG:
        yield fine(SPEED, f"{took}{saved}")
        return
    yield note(
        SPEED,
        f"{took}{saved}; the job's profile says {format_duration(stated)} per iteration, and the quote is "
        "made from that",
        remedy="measure it: `elastune profile`, or leave `profile` out of the job",
    )
