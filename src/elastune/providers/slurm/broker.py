"""Decides what to ask of Slurm next. No thread, no process, no clock of its own: `work` makes one round.

Safe whatever happens between any two calls:

- A job has run, request and expiry in its name and comment. So a new driver finds it, and `elastune nodes`
  sees when its lease is over. The lease that ends it is in the head of the run (`remote/head.py`).
- A submission without an answer is not repeated before a listing, some time later, does not show its jobs.
- A job that waits for what can never come, or for too long, is cancelled, and its node counts as refused:
  the run plans for what it has, and asks again later.
- A controller that crashed may give the number of a job that it forgot to another one, which is cancelled.
- A released job that cannot be cancelled goes on costing money, so it is listed again as a machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from elastune.model.ids import NodeId
from elastune.providers.protocol import Machine, RequestStatus, Survey, check_request
from elastune.providers.slurm.calls import (
    JobPhase,
    SlurmBusyError,
    SlurmCalls,
    SlurmError,
    SlurmJob,
    SlurmLimitError,
    SlurmRefusedError,
    Submission,
    write_comment,
)

RETRY_S = 5.0
"""After this, a released job whose end Slurm has not accepted is listed, and cancelled, again."""
UNSURE_S = 20.0
"""A submission without an answer is decided by a listing that is made so long after it."""
HOPELESS_S = 30.0
"""How long a reason for which a job can never start may be shown: it may be an old one."""
_LINGER_S = 120.0
"""A job that is still listed as running so long after it was cancelled is cancelled again."""
_LEAST_PATIENCE_S = 600.0
_PATIENCE = 4.0
_LEAST_LOOK_S, _MOST_LOOK_S, _ERROR_LOOK_S = 0.5, 15.0, 5.0
_LOOKS_PER_GRACE = 8.0
_LOOKS_PER_WAIT = 10.0
"""A job that has waited for a minute is looked at every 6 s: controllers are shared by many users."""
_DESCRIBE_S = 100.0
_FIRST_WAIT_S, _MOST_WAIT_S = 1.0, 60.0
_SURPLUS = "more than was asked for: the controller lost track"
_NEVER_RAN = ("CANCELLED", "DEADLINE", "REVOKED")
_HOPELESS = re.compile(
    r"Partition(?:Down|Inactive|NodeLimit|TimeLimit|Config)|BadConstraints|NotAllowed|Invalid|JobHeld|Held|"
    r"(?:Assoc|QOS)\w*Limit|ReqNodeNotAvail|NeverSatisfied|NodeDown|ReservationDeleted"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPurpose:
    """The run, for its jobs; what a job does, and how long it may wait."""

    run: str
    max_nodes: int
    script: str
    arguments: Sequence[str]
    output: str
    job: str = ""
    usd_per_hour: float = 0.0
    notice_s: float = 60.0
    expected_queue_s: float = 0.0
    patience_s: float | None = None
    grace_s: float | None = None
    """From the pre-emption of a job to its end; None: jobs are not pre-empted, or without a grace time."""

    @property
    def most_look_s(self) -> float:
        """A pre-emption is seen while there is time to save."""
        if self.grace_s is None:
            return _MOST_LOOK_S
        return min(_MOST_LOOK_S, max(_LEAST_LOOK_S, self.grace_s / _LOOKS_PER_GRACE))

    @property
    def most_wait_s(self) -> float:
        usual = max(_LEAST_PATIENCE_S, _PATIENCE * self.expected_queue_s)
        return usual if self.patience_s is None else self.patience_s

    def comment(self, token: str, asked: int, expires: float | None) -> str:
        tags = {"request": token, "asked": str(asked), "usd": f"{self.usd_per_hour:g}", "job": self.job}
        return write_comment(tags if expires is None else {**tags, "expires": str(int(expires))})


@dataclass(slots=True)
class JobOrder:
    """A request: what of it is submitted, granted and refused."""

    token: str
    asked: int
    granted: list[NodeId] = field(default_factory=list)
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    most: int | None = None
    """Jobs in one submission; None: all. Fewer after a limit was hit."""
    due_s: float = -math.inf
    tries: int = 0
    unsure_s: float | None = None
    """A submission got no answer: a listing after this time shows whether it was executed."""

    def refuse(self, count: int, why: str) -> None:
        self.refused += count
        if why not in self.reasons:
            self.reasons.append(why)

    def wait(self, now_s: float, chance: float) -> None:
        pause = min(_MOST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self.tries, 10))
        self.tries += 1
        self.due_s = now_s + pause * (1.0 + chance / 2)


@dataclass(slots=True)
class JobRecord:
    """A job as it was last listed. Times are of the run's clock."""

    job: SlurmJob
    asked_s: float
    is_ours: bool
    """Submitted by this driver, not by an earlier one."""
    machine: Machine | None = None
    """Once it runs, or has run."""
    ended_s: float | None = None
    is_withdrawn: bool = False
    """It ended without having run."""
    hopeless_s: float | None = None
    """Since when its reason means that it can never start."""
    given_up: str = ""
    """Why it is cancelled although it was not released."""
    released_s: float | None = None
    cancelled_s: float | None = None

    @property
    def is_pending(self) -> bool:
        return self.machine is None and self.ended_s is None

    @property
    def is_failed_start(self) -> bool:
        ended = self.ended_s is not None and self.released_s is None and not self.given_up
        return self.is_ours and ended and self.machine is not None and self.machine.ready_s is None


class JobBroker:
    """`lease_s` returns for how long nodes may live from now on; None: not known yet, so nothing is
    submitted. `needed_s`: for how long nodes are needed, None: not known. `wall` is for comments only."""

    def __init__(
        self,
        calls: SlurmCalls,
        purpose: JobPurpose,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        lease_s: Callable[[], float | None],
        needed_s: Callable[[], float | None],
        luck: Random,
    ) -> None:
        self._calls = calls
        self._purpose = purpose
        self._clock = clock
        self._wall = wall
        self._lease_s = lease_s
        self._needed_s = needed_s
        self._luck = luck
        self._orders: dict[str, JobOrder] = {}
        self.records: dict[str, JobRecord] = {}
        self._look_s = -math.inf
        self._cancel_s = -math.inf
        self._describe_s = -math.inf
        self._closing = False
        self._last_since_s = -math.inf
        self._joined_s: dict[str, float] = {}
        self._reused: set[str] = set()
        """Arrays with the number of an earlier one, to be cancelled: see `_is_another`."""
        self.trouble: str | None = None
        """The error of the last round, which is tried again."""
        self.broken: str | None = None
        """Why no job can ever be submitted."""

    # The run's calls.

    def request(self, token: str, count: int) -> None:
        order = self._orders.get(token)
        check_request(token, count, None if order is None else order.asked)
        if order is not None:
            return
        order = self._orders[token] = self._adopted(token, count)
        missing, open_ = self._missing(order), sum(map(self._open, self._orders.values())) - self._open(order)
        room = max(0, self._purpose.max_nodes - len(self._machines()) - open_)
        if missing > room:
            order.refuse(missing - room, f"at most {self._purpose.max_nodes} nodes")
        if self.broken is not None:
            order.refuse(self._missing(order), self.broken)

    def limit_nodes(self, most: int) -> None:
        self._purpose = replace(self._purpose, max_nodes=most)

    def release(self, nodes: Collection[NodeId]) -> None:
        for node in nodes:
            record = self.records.get(node)
            if record is not None and record.ended_s is None:
                record.released_s = self._clock()
                self._cancel_s = -math.inf

    def survey(self) -> Survey:
        tokens = {record.job.request for record in self.records.values()} - self._orders.keys()
        others = [self._adopted(token, len(self._of(token))) for token in sorted(tokens)]
        statuses = (self._status(order) for order in (*self._orders.values(), *others))
        answered = tuple(status for status in statuses if status.granted or status.refused)
        machines = tuple(sorted(self._machines(), key=lambda machine: machine.since_s))
        return Survey(at_s=self._clock(), machines=machines, requests=answered)

    def join(self, node: str, at_s: float) -> None:
        """Its Ray node is up, perhaps before a listing shows that the job runs."""
        self._joined_s.setdefault(node, at_s)
        record = self.records.get(node)
        if record is not None and record.machine is not None and record.machine.ready_s is None:
            ready_s = max(self._joined_s[node], record.machine.since_s)
            record.machine = replace(record.machine, ready_s=ready_s)

    def notice(self, until_s: Mapping[str, float]) -> None:
        """These will be taken away at that time of the run."""
        for node, at_s in until_s.items():
            record = self.records.get(node)
            if record is not None and record.machine is not None and record.machine.until_s is None:
                record.machine = replace(record.machine, until_s=at_s)

    def billed_s(self, node: str) -> float | None:
        """For how long it ran so far; None: it is not known, or has never run."""
        record = self.records.get(node)
        if record is None or record.machine is None:
            return None
        until_s = self._clock() if record.ended_s is None else record.ended_s
        return max(0.0, until_s - record.machine.since_s)

    @property
    def is_settled(self) -> bool:
        """Whether every request is answered and the end of every released job is accepted."""
        is_cancelled = not self._to_cancel() and not self._reused
        return is_cancelled and not any(map(self._open, self._orders.values()))

    def alive(self) -> tuple[str, ...]:
        return tuple(id_ for id_, record in self.records.items() if record.ended_s is None)

    def failed_starts(self) -> list[str]:
        """Those of this driver that ended by themselves before their Ray node was up."""
        return [id_ for id_, record in self.records.items() if record.is_failed_start]

    # A round of calls.

    def work(self) -> float:
        """Make all calls that are due; returns when the next is, by the run's clock."""
        self.trouble = None
        self._look()
        self._cancel()
        for order in tuple(self._orders.values()):
            while self._is_due(order):
                self._submit(order)
        self._describe()
        dues = [self._look_s]
        dues += [order.due_s for order in self._orders.values() if self._missing(order)]
        dues += [self._cancel_s] if self._to_cancel() or self._reused else []
        return max(self._clock() + 0.05, min(dues))

    def look_afresh(self) -> None:
        """List now. Raises `SlurmError`."""
        jobs = self._calls.jobs(self._purpose.run)
        now_s = self._clock()
        for job in sorted(jobs, key=lambda job: -job.used_s):
            record = self.records.get(job.id)
            if record is None:
                seen_s = now_s if job.phase is JobPhase.PENDING else -math.inf
                record = self.records[job.id] = JobRecord(job=job, asked_s=seen_s, is_ours=False)
            self._take_in(record, job, now_s)
        listed = {job.id for job in jobs}
        for id_, record in self.records.items():
            if id_ not in listed and record.ended_s is None:
                record.ended_s, record.is_withdrawn = now_s, record.machine is None
        if self._closing:
            self.release([NodeId(id_) for id_ in self.alive()])
        for order in self._orders.values():
            if order.unsure_s is not None and now_s >= order.unsure_s:
                order.unsure_s = None
        self._look_s = now_s + self._pause_s(now_s)

    def wind_up(self) -> None:
        """Release everything and submit nothing new."""
        self._closing = True
        self.release([NodeId(id_) for id_ in self.alive()])
        for order in self._orders.values():
            order.unsure_s = None
            order.refuse(self._missing(order), "the run is over")

    def cancel_all(self) -> None:
        """All jobs of the run in one call, also those of submissions without an answer."""
        self._calls.cancel_run(self._purpose.run)

    # Private.

    def _adopted(self, token: str, asked: int) -> JobOrder:
        """With what an earlier driver of the run got for this token."""
        found = [each for each in self._of(token) if each.machine is not None]
        granted = [NodeId(each.job.id) for each in found[:asked]]
        for each in found[asked:]:
            each.machine, each.given_up = None, _SURPLUS
        return JobOrder(token=token, asked=asked, granted=granted)

    def _of(self, token: str) -> list[JobRecord]:
        return [record for record in self.records.values() if record.job.request == token]

    def _missing(self, order: JobOrder) -> int:
        """What has still to be submitted."""
        return max(0, order.asked - order.refused - len(self._of(order.token)))

    def _open(self, order: JobOrder) -> int:
        pending = sum(record.is_pending for record in self._of(order.token))
        return self._missing(order) + pending

    def _machines(self) -> list[Machine]:
        now_s, there = self._clock(), []
        for record in self.records.values():
            if record.machine is None or record.ended_s is not None or record.given_up:
                continue
            if record.released_s is None or now_s - record.released_s >= RETRY_S:
                there.append(record.machine)
        return there

    def _status(self, order: JobOrder) -> RequestStatus:
        withdrawn = [record for record in self._of(order.token) if record.is_withdrawn]
        # A controller that forgot the start of a job lists it once more, without its task.
        refused = min(order.refused + len(withdrawn), order.asked - len(order.granted))
        why = [*order.reasons, *(record.given_up or "cancelled while it waited" for record in withdrawn)]
        return RequestStatus(
            token=order.token,
            asked=order.asked,
            granted=tuple(order.granted),
            refused=refused,
            reason="; ".join(dict.fromkeys(why)) if refused else "",
        )

    def _take_in(self, record: JobRecord, job: SlurmJob, now_s: float) -> None:
        """The news of one job."""
        if self._is_another(record, job, now_s):
            return
        record.job = job
        if record.ended_s is not None:
            cancelled_s = record.cancelled_s
            if job.phase is JobPhase.RUNNING and cancelled_s is not None and now_s - cancelled_s > _LINGER_S:
                record.ended_s = record.cancelled_s = None  # it did not end after all
                record.released_s = now_s
            return
        match job.phase:
            case JobPhase.RUNNING:
                self._run(record, now_s)
                left_s = job.left_s
                if left_s is not None and left_s <= self._purpose.notice_s:
                    self.notice({job.id: now_s + left_s})
            case JobPhase.PENDING if record.machine is None:
                is_hopeless = _HOPELESS.search(job.reason) is not None
                record.hopeless_s = (record.hopeless_s or now_s) if is_hopeless else None
                self._lose_patience(record, now_s)
            case JobPhase.PENDING | JobPhase.STOPPED:
                record.given_up = f"Slurm has stopped it ({job.state.lower()})"
            case JobPhase.ENDED:
                if record.machine is None and job.state in _NEVER_RAN and not job.used_s:
                    record.is_withdrawn = True
                else:
                    self._run(record, now_s)
                record.ended_s = now_s

    def _is_another(self, record: JobRecord, job: SlurmJob, now_s: float) -> bool:
        """Whether a controller that crashed has forgotten a job and given its number to a later one. That is
        cancelled, and asked for again: a node never has the name of an earlier one."""
        if not record.job.request or job.request == record.job.request:
            return False
        if record.ended_s is None:
            record.ended_s, record.is_withdrawn = now_s, record.machine is None
        if job.phase is not JobPhase.ENDED:
            self._reused.add(job.array)
        return True

    def _run(self, record: JobRecord, now_s: float) -> None:
        if record.machine is not None:
            return
        order = self._orders.get(record.job.request)
        if order is not None and len(order.granted) >= order.asked - order.refused:
            record.given_up = _SURPLUS
            return
        since_s = max(record.asked_s, now_s - record.job.used_s, self._last_since_s)
        self._last_since_s = since_s = min(since_s, now_s)
        node = NodeId(record.job.id)
        record.machine = Machine(node=node, token=record.job.request, since_s=since_s)
        if node in self._joined_s:
            self.join(node, self._joined_s[node])
        if order is not None and node not in order.granted:
            order.granted.append(node)

    def _lose_patience(self, record: JobRecord, now_s: float) -> None:
        waited_s, reason = now_s - record.asked_s, record.job.reason
        if record.hopeless_s is not None and now_s - record.hopeless_s >= HOPELESS_S:
            record.given_up = f"Slurm does not start it: {reason}"
        elif waited_s > self._purpose.most_wait_s:
            record.given_up = (
                f"waited for {waited_s / 60:.0f} min in the queue ({reason or 'no reason given'})"
            )

    def _pause_s(self, now_s: float) -> float:
        """Often while something is about to happen, else seldom."""
        waits = [now_s - each.asked_s for each in self.records.values() if each.is_pending]
        booting = any(
            each.machine is not None and each.machine.ready_s is None and each.ended_s is None
            for each in self.records.values()
        )
        if self._to_cancel() or any(order.unsure_s for order in self._orders.values()):
            return _LEAST_LOOK_S
        soonest = min(waits, default=math.inf) / _LOOKS_PER_WAIT
        return min(self._purpose.most_look_s, 2.0 if booting else math.inf, max(_LEAST_LOOK_S, soonest))

    def _look(self) -> None:
        if self._clock() < self._look_s:
            return
        try:
            self.look_afresh()
        except SlurmError as error:
            self.trouble = str(error)
            self._look_s = self._clock() + _ERROR_LOOK_S

    def _is_due(self, order: JobOrder) -> bool:
        waits = order.unsure_s is not None or self._clock() < order.due_s
        return self._missing(order) > 0 and not waits and (self._lease_s() or 0.0) > 0.0

    def _submit(self, order: JobOrder) -> None:
        now_s, lease_s, missing = self._clock(), self._lease_s(), self._missing(order)
        count = missing if order.most is None else min(missing, order.most)
        expires = None if lease_s is None else self._wall() + lease_s
        submission = Submission(
            run=self._purpose.run,
            count=count,
            script=self._purpose.script,
            arguments=self._purpose.arguments,
            comment=self._purpose.comment(order.token, order.asked, expires),
            output=self._purpose.output,
            time_s=self._needed_s(),
        )
        try:
            array = self._calls.submit(submission)
        except SlurmError as error:
            self._failed(order, count, error)
            return
        order.tries = 0
        if any(f"{array}_{task}" in self.records for task in range(count)):
            self._reused.add(array)
            return
        for task in range(count):
            job = SlurmJob(
                id=f"{array}_{task}",
                run=self._purpose.run,
                phase=JobPhase.PENDING,
                state="PENDING",
                tags={"request": order.token},
            )
            self.records[job.id] = JobRecord(job=job, asked_s=now_s, is_ours=True)
        self._look_s = min(self._look_s, now_s + _LEAST_LOOK_S)

    def _failed(self, order: JobOrder, count: int, error: SlurmError) -> None:
        now_s = self._clock()
        match error:
            case SlurmLimitError() if count > 1:
                order.most = count // 2
            case SlurmLimitError():
                order.refuse(self._missing(order), str(error))
            case SlurmRefusedError():
                self.broken = str(error)
                order.refuse(self._missing(order), str(error))
            case SlurmBusyError() | SlurmError():
                order.wait(now_s, self._luck.random())
                order.unsure_s = now_s + UNSURE_S
                self.trouble = str(error)

    def _to_cancel(self) -> list[str]:
        return [
            id_
            for id_, each in self.records.items()
            if each.ended_s is None and (each.released_s is not None or each.given_up)
        ]

    def _cancel(self) -> None:
        now_s, wanted = self._clock(), self._to_cancel()
        if not (wanted or self._reused) or now_s < self._cancel_s:
            return
        self._cancel_s = now_s + RETRY_S
        try:
            self._calls.cancel([*wanted, *self._reused])
        except SlurmError as error:
            self.trouble = str(error)
            return
        self._reused.clear()
        for id_ in wanted:
            record = self.records[id_]
            record.ended_s = record.cancelled_s = now_s
            record.is_withdrawn = record.machine is None

    def _describe(self) -> None:
        """The lease in the comments, for `elastune nodes`."""
        now_s, lease_s = self._clock(), self._lease_s()
        if now_s < self._describe_s or lease_s is None:
            return
        self._describe_s = now_s + _DESCRIBE_S
        arrays: dict[str, set[str]] = {}
        for id_ in self.alive():
            job = self.records[id_].job
            arrays.setdefault(job.request, set()).add(job.array)
        for token, some in arrays.items():
            order = self._orders.get(token)
            asked = len(self._of(token)) if order is None else order.asked
            try:
                self._calls.describe(some, self._purpose.comment(token, asked, self._wall() + lease_s))
            except SlurmError as error:  # the lease of the nodes is in the head: this one is only shown
                self.trouble = str(error)
