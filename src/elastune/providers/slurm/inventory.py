"""Lists and cancels the jobs of Elastune of this user; and how long requests wait in the queue."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Collection

from elastune.errors import JobError
from elastune.model.billing import Options
from elastune.model.distributions import Constant, Distribution, LogNormal
from elastune.providers.protocol import LiveInstance, UnseenError
from elastune.providers.slurm.calls import (
    JobPhase,
    SlurmAbsentError,
    SlurmCommands,
    SlurmError,
    SlurmJob,
    SlurmRefusedError,
)
from elastune.providers.slurm.options import SlurmOptions
from elastune.providers.slurm.script import SAME, job_arguments

_LEAST_WAITS = 5
_LEAST_QUEUE_S = 1.0
_USUAL_TIME_S = 3600.0


class SlurmInventory:
    """Jobs that wait are listed, too: they hold a place in the queue."""

    def __init__(self, calls: SlurmCommands | None = None) -> None:
        self._calls = calls or SlurmCommands()

    def instances(self) -> tuple[LiveInstance, ...]:
        try:
            jobs = self._calls.jobs()
        except SlurmError as error:
            is_absent = isinstance(error, SlurmRefusedError)
            raise UnseenError(str(error), is_absent=is_absent) from error
        alive = (job for job in jobs if job.phase is not JobPhase.ENDED)
        return tuple(_live_instance(job) for job in sorted(alive, key=lambda job: (job.submitted, job.id)))

    def end(self, nodes: Collection[str]) -> None:
        try:
            self._calls.cancel(nodes)
        except SlurmError as error:
            raise UnseenError(str(error)) from error


def _live_instance(job: SlurmJob) -> LiveInstance:
    is_waiting = job.phase is JobPhase.PENDING
    usd = job.number("usd")
    return LiveInstance(
        provider="slurm",
        node=job.id,
        run=job.run,
        job=job.tags.get("job"),
        owner=job.owner or None,
        kind=" ".join(word for word in (job.partition, job.host) if word),
        state=job.state.lower(),
        since=time.time() if is_waiting else time.time() - job.used_s,
        usd_per_hour=usd or None,
        expires=job.number("expires"),
    )


def expected_queue(options: Options, *, cpus: int = 0, gpus: int = 0) -> Distribution | None:
    """How long this user's jobs waited lately, where the site keeps accounts; else Slurm's own estimate for a
    node of so many CPUs and GPUs asked for now; None: neither is known. Raises `JobError` if Slurm would
    refuse such a job."""
    parsed, calls = SlurmOptions.parse(options), SlurmCommands()
    if os.environ.get("SLURM_JOB_ID"):
        return Constant(0.0)  # its machines are there
    estimate_s: float | None = None
    try:
        arguments = job_arguments(parsed, cpus=cpus, gpus=gpus)
        time_s = min(parsed.time_limit or _USUAL_TIME_S, calls.most_time_s(parsed.partition) or math.inf)
        estimate_s = calls.expected_wait_s(arguments, "#!/bin/bash\ntrue\n", time_s)
    except SlurmAbsentError:
        return None  # a quote on another machine
    except SlurmRefusedError as error:
        said = "; ".join(each.removeprefix("--") for each in arguments if not each.startswith(SAME))
        raise JobError(f"Slurm would refuse a node with {said or 'the usual options'}: {error}") from None
    except SlurmError:
        pass
    waits: tuple[float, ...] = ()
    with contextlib.suppress(SlurmError):
        waits = calls.past_waits_s(parsed.partition)
    if len(waits) >= _LEAST_WAITS:
        mean = statistics.fmean(waits)
        return Constant(0.0) if mean < _LEAST_QUEUE_S else LogNormal(mean, max(0.1, statistics.pstdev(waits)))
    return None if estimate_s is None else Constant(float(round(estimate_s)))
