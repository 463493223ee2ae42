"""A model of Slurm on a clock that is passed in: it is slow, full, limited, forgetful and at times away."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from elastune.providers.slurm.calls import (
    JobPhase,
    SlurmBusyError,
    SlurmJob,
    SlurmLimitError,
    Submission,
    read_comment,
)

REMEMBERED_S = 300.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFaults:
    """Chances per call, but for the rates, which are per job and second."""

    unheard: float = 0.0
    """A call fails without having been executed."""
    unanswered: float = 0.0
    """It is executed, and the answer is lost."""
    capacity: int = 100
    most_jobs: int = 1000
    """Jobs of a user at a time, waiting or not: more are not accepted."""
    grouped: int = 1000
    """Jobs of an account that may run at a time: others wait for that reason."""
    start_s: float = 1.0
    loss_per_s: float = 0.0
    requeue_per_s: float = 0.0


@dataclass(slots=True)
class ModelJob:
    job: SlurmJob
    submitted_s: float
    starts_s: float
    began_s: float | None = None
    ended_s: float | None = None
    ends_s: float = field(default=float("inf"))


class ModelSlurm:
    def __init__(self, clock: Callable[[], float], faults: SlurmFaults, seed: int) -> None:
        self._clock = clock
        self._faults = faults
        self._luck = random.Random(f"slurm {seed}")
        self._arrays = 100
        self.all: dict[str, ModelJob] = {}
        self.submitted = 0

    def alive(self) -> list[str]:
        self._catch_up()
        return [id_ for id_, each in self.all.items() if each.ended_s is None]

    def end(self, ids: Collection[str], state: str = "FAILED") -> None:
        """Jobs, or arrays with all of theirs."""
        for id_, each in self.all.items():
            if (id_ in ids or each.job.array in ids) and each.ended_s is None:
                each.ended_s = self._clock()
                each.job = replace(each.job, phase=JobPhase.ENDED, state=state)

    def crash(self, arrays: int) -> None:
        """The controller has not saved the last of these, forgets them, and gives their numbers again."""
        forgotten = range(self._arrays - arrays + 1, self._arrays + 1)
        self.all = {id_: each for id_, each in self.all.items() if int(each.job.array) not in forgotten}
        self._arrays -= arrays

    def submit(self, submission: Submission) -> str:
        return self._call(lambda: self._submit(submission))

    def jobs(self, run: str | None = None) -> tuple[SlurmJob, ...]:
        return self._call(lambda: self._list(run))

    def cancel(self, jobs: Collection[str]) -> None:
        self._call(lambda: self.end(jobs, "CANCELLED"))

    def cancel_run(self, run: str) -> None:
        self._call(
            lambda: self.end([id_ for id_, each in self.all.items() if each.job.run == run], "CANCELLED")
        )

    def describe(self, arrays: Collection[str], comment: str) -> None:
        def change() -> None:
            for each in self.all.values():
                if each.job.array in arrays:
                    each.job = replace(each.job, tags=read_comment(comment))

        self._call(change)

    def most_time_s(self, partitions: Sequence[str]) -> float | None:
        return None

    def grace_s(self, partitions: Sequence[str], qos: str | None) -> float | None:
        return None

    def some_host(self, partitions: Sequence[str]) -> str | None:
        return "127.0.0.1"

    def _call(self, act: Callable[[], T]) -> T:
        self._catch_up()
        if self._luck.random() < self._faults.unheard:
            raise SlurmBusyError("Unable to contact slurm controller (connect failure)")
        answer = act()
        if self._luck.random() < self._faults.unanswered:
            raise SlurmBusyError("Socket timed out on send/recv operation")
        return answer

    def _submit(self, submission: Submission) -> str:
        now_s = self._clock()
        if len(self.alive()) + submission.count > self._faults.most_jobs:
            raise SlurmLimitError("Job violates accounting/QOS policy (job submit limit)")
        self._arrays += 1
        for task in range(submission.count):
            job = SlurmJob(
                id=f"{self._arrays}_{task}",
                run=submission.run,
                phase=JobPhase.PENDING,
                state="PENDING",
                reason="Priority",
                tags=read_comment(submission.comment),
            )
            starts_s = now_s + self._luck.uniform(0.0, 2.0) * self._faults.start_s
            self.all[job.id] = ModelJob(job, now_s, starts_s)
        self.submitted += submission.count
        return str(self._arrays)

    def _list(self, run: str | None) -> tuple[SlurmJob, ...]:
        now_s = self._clock()
        shown = []
        for each in self.all.values():
            if run is not None and each.job.run != run:
                continue
            if each.ended_s is not None and (each.began_s is None or now_s - each.ended_s > REMEMBERED_S):
                continue
            until_s = now_s if each.ended_s is None else each.ended_s
            used_s = 0.0 if each.began_s is None else float(int(until_s - each.began_s))
            shown.append(replace(each.job, used_s=used_s))
        return tuple(shown)

    def _catch_up(self) -> None:
        now_s = self._clock()
        running = sum(each.began_s is not None and each.ended_s is None for each in self.all.values())
        for each in self.all.values():
            if each.ended_s is not None:
                continue
            if each.began_s is None:
                if now_s < each.starts_s:
                    continue
                if running < min(self._faults.capacity, self._faults.grouped):
                    running += 1
                    each.began_s = now_s
                    rate = self._faults.loss_per_s
                    each.ends_s = now_s + self._luck.expovariate(rate) if rate else float("inf")
                    each.job = replace(each.job, phase=JobPhase.RUNNING, state="RUNNING", reason="")
                else:
                    limited = running >= self._faults.grouped
                    reason = "AssocGrpNodeLimit" if limited else "Resources"
                    each.job = replace(each.job, reason=reason)
            elif now_s >= each.ends_s:
                self.end([each.job.id], "NODE_FAIL")
            elif self._luck.random() < self._faults.requeue_per_s:
                each.job = replace(each.job, phase=JobPhase.PENDING, state="PENDING", reason="BeginTime")
