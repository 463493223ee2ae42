"""The calls to Slurm, their values and errors, by the commands sbatch, squeue, scancel, scontrol.

The broker, which decides what to call and when to try again, knows no processes; tests replace these calls.
A node is one task of a job array: a request is one call, which submits all of its jobs or none.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, unquote

PREFIX = "elastune-"
"""The name of a job is this and its run."""
_MARK = "elastune"
_CALL_S = 60.0
_FIELDS = "ArrayJobID", "ArrayTaskID", "JobID", "Name", "State", "TimeUsed", "TimeLeft", "SubmitTime"
_MORE = "StartTime", "EndTime", "Reason", "Partition", "NodeList", "UserName", "Comment"
_MOST_AT_ONCE = 200


class JobPhase(enum.Enum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    """Suspended, or queued again after it ran: of no use any more. It has to be cancelled."""
    ENDED = "ended"


_PHASES = {
    "PENDING": JobPhase.PENDING,
    "REQUEUED": JobPhase.PENDING,
    "REQUEUE_FED": JobPhase.PENDING,
    "REQUEUE_HOLD": JobPhase.PENDING,
    "RESV_DEL_HOLD": JobPhase.PENDING,
    "SPECIAL_EXIT": JobPhase.PENDING,
    "CONFIGURING": JobPhase.RUNNING,
    "RUNNING": JobPhase.RUNNING,
    "RESIZING": JobPhase.RUNNING,
    "SIGNALING": JobPhase.RUNNING,
    "STAGE_OUT": JobPhase.ENDED,
    "STOPPED": JobPhase.STOPPED,
    "SUSPENDED": JobPhase.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """As squeue lists it. Jobs that ended are listed for some minutes."""

    id: str
    run: str
    phase: JobPhase
    state: str
    used_s: float = 0.0
    left_s: float | None = None
    """Until its time limit, or until it is pre-empted; None: no limit."""
    submitted: float = 0.0
    """Seconds since 1970, by the controller's clock."""
    reason: str = ""
    """Why it waits."""
    partition: str = ""
    host: str = ""
    owner: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    """In its comment: request, asked, expires, usd, job."""

    @property
    def array(self) -> str:
        return self.id.partition("_")[0]

    @property
    def request(self) -> str:
        return self.tags.get("request", "")

    def number(self, tag: str) -> float | None:
        try:
            return float(self.tags[tag])
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    run: str
    count: int
    script: str
    arguments: Sequence[str]
    comment: str
    output: str
    time_s: float | None = None


class SlurmError(Exception):
    """Slurm refused, or did not answer."""


class SlurmBusyError(SlurmError):
    """No answer: the call may have been executed. Look, then try again."""


class SlurmLimitError(SlurmError):
    """A limit of the account or a partition that is down: fewer jobs, or later, may work."""


class SlurmRefusedError(SlurmError):
    """It can never work: an option names what does not exist, or is not allowed."""


class SlurmAbsentError(SlurmRefusedError):
    """Slurm is not installed on this machine."""


class SlurmCalls(Protocol):
    def submit(self, submission: Submission) -> str:
        """The id of the array, whose tasks are numbered from 0."""

    def jobs(self, run: str | None = None) -> tuple[SlurmJob, ...]:
        """Of this user: those of a run, or of all; also those that ended recently."""

    def cancel(self, jobs: Collection[str]) -> None:
        """Ended and unknown ones are no error."""

    def cancel_run(self, run: str) -> None:
        """All jobs of a run."""

    def describe(self, arrays: Collection[str], comment: str) -> None:
        """Another comment for all jobs of these arrays."""

    def most_time_s(self, partitions: Sequence[str]) -> float | None:
        """The longest time limit that one of these partitions allows; None: any."""

    def grace_s(self, partitions: Sequence[str], qos: str | None) -> float | None:
        """The shortest time between the pre-emption of a job there and its end; None: there is none."""

    def some_host(self, partitions: Sequence[str]) -> str | None:
        """The address of a compute node."""


def write_comment(tags: Mapping[str, str]) -> str:
    return " ".join([_MARK, *(f"{name}={quote(value, safe='')}" for name, value in tags.items() if value)])


def read_comment(text: str) -> dict[str, str]:
    """Empty for a job that is none of ours."""
    mark, *words = text.split() or [""]
    if mark != _MARK:
        return {}
    return {name: unquote(value) for name, _, value in (word.partition("=") for word in words)}


_BUSY = re.compile(
    r"unable to contact|timed out|connection refused|communication connection failure|zero bytes|"
    r"temporarily unable|temporarily unavailable|not responding|authentication error|in standby|"
    r"munge|connection reset|unexpected message|slurm_receive_msg|slurm_send_msg",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"accounting/qos policy|limit is (?:reached|exceeded)|submitjob|maxsubmit|assoc|qosmax|qosgrp|"
    r"not available \(inactive or drain\)|job submission.*disabled|too many|resources are in use",
    re.IGNORECASE,
)


_NAME = re.compile(r"(?:Assoc|QOS|Job)\w+")
"""Of a limit: Slurm says which one on a line of its own, before what it says of all of them."""


def error_of(command: str, said: str) -> SlurmError:
    """From the text on standard error."""
    lines = [re.sub(r"^\w+: (?:error: )?", "", line.strip()) for line in said.splitlines() if line.strip()]
    text = ": ".join(lines[-2:] if len(lines) > 1 and _NAME.fullmatch(lines[-2]) else lines[-1:])
    text = text or "no reason given"
    kind: type[SlurmError] = SlurmRefusedError
    if _BUSY.search(said):
        kind = SlurmBusyError
    elif _LIMIT.search(said):
        kind = SlurmLimitError
    return kind(f"{command}: {text}")


def parse_time(text: str) -> float | None:
    """`1-02:03:04`, `02:03`, as squeue shows times; None: no limit, or not known."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def seconds_left(found: Mapping[str, str]) -> float | None:
    """Until a running job is ended; None: no limit. While it is pre-empted with a grace time, only its end is
    changed: `TimeLeft` is not (seen with Slurm 22.05). All three times are of the controller's clock."""
    left_s, used_s = parse_time(found["TimeLeft"]), parse_time(found["TimeUsed"])
    start, end = found["StartTime"], found["EndTime"]
    if found["State"] != "RUNNING" or used_s is None or not (start.isdigit() and end.isdigit()):
        return left_s
    by_end_s = max(0.0, float(end) - float(start) - used_s)
    return by_end_s if left_s is None else min(left_s, by_end_s)


def parse_job(line: str) -> SlurmJob | None:
    """A line of squeue; None: no job of ours."""
    values = line.rstrip("\n").split("|", len(_FIELDS) + len(_MORE) - 1)
    if len(values) != len(_FIELDS) + len(_MORE):
        return None
    found = dict(zip((*_FIELDS, *_MORE), (value.strip() for value in values), strict=True))
    tags = read_comment(found["Comment"])
    if not found["Name"].startswith(PREFIX) or not tags:
        return None
    task = found["ArrayTaskID"]
    submitted = found["SubmitTime"]
    return SlurmJob(
        id=f"{found['ArrayJobID']}_{task}" if task.isdigit() else found["JobID"],
        run=found["Name"].removeprefix(PREFIX),
        phase=_PHASES.get(found["State"], JobPhase.ENDED),
        state=found["State"],
        used_s=parse_time(found["TimeUsed"]) or 0.0,
        left_s=seconds_left(found),
        submitted=float(submitted) if submitted.isdigit() else time.time(),
        reason="" if found["Reason"] == "None" else found["Reason"],
        partition=found["Partition"],
        host=found["NodeList"],
        owner=found["UserName"],
        tags=tags,
    )


def _minutes(seconds: float) -> int:
    return max(1, -(-int(seconds) // 60))


class SlurmCommands:
    """Slurm by its commands."""

    def submit(self, submission: Submission) -> str:
        time_s = submission.time_s
        limit = [] if time_s is None else [f"--time={_minutes(time_s)}"]
        said = self._call(
            "sbatch",
            "--parsable",
            f"--array=0-{submission.count - 1}",
            f"--job-name={PREFIX}{submission.run}",
            f"--comment={submission.comment}",
            f"--output={submission.output}",
            *limit,
            *submission.arguments,
            text=submission.script,
        )
        return said.strip().splitlines()[-1].partition(";")[0]

    def jobs(self, run: str | None = None) -> tuple[SlurmJob, ...]:
        shape = ",".join([*(f"{name}:|" for name in (*_FIELDS, *_MORE[:-1])), "Comment:1000"])
        named = [] if run is None else [f"--name={PREFIX}{run}"]
        said = self._call(
            "squeue", "--me", "--array", "--states=all", "--noheader", *named, f"--Format={shape}"
        )
        return tuple(job for line in said.splitlines() if (job := parse_job(line)) is not None)

    def left_s(self, job: str) -> float | None:
        """For how long a job may still run; None: it does not run, or has no end."""
        names = "State", "TimeUsed", "TimeLeft", "StartTime", "EndTime"
        shape = ",".join(f"{name}:|" for name in names)
        said = self._call("squeue", "--noheader", f"--jobs={job}", f"--Format={shape}")
        found = dict(zip(names, (value.strip() for value in said.split("|")), strict=False))
        return seconds_left(found) if found.get("State") == "RUNNING" else None

    def cancel(self, jobs: Collection[str]) -> None:
        wanted = sorted(jobs)
        for first in range(0, len(wanted), _MOST_AT_ONCE):
            self._call("scancel", "--quiet", *wanted[first : first + _MOST_AT_ONCE])

    def cancel_run(self, run: str) -> None:
        self._call("scancel", "--quiet", "--me", f"--name={PREFIX}{run}")

    def describe(self, arrays: Collection[str], comment: str) -> None:
        if arrays:
            self._call("scontrol", "update", f"JobId={','.join(sorted(arrays))}", f"Comment={comment}")

    def most_time_s(self, partitions: Sequence[str]) -> float | None:
        named = [f"--partition={','.join(partitions)}"] if partitions else []
        said = self._call("sinfo", "--noheader", *named, "--format=%P|%l")
        rows = [line.partition("|") for line in said.split()]
        chosen = rows if partitions else [row for row in rows if row[0].endswith("*")] or rows
        times = [parse_time(row[2]) for row in chosen]
        limits = [each for each in times if each is not None]
        return max(limits) if limits and len(limits) == len(times) else None

    def grace_s(self, partitions: Sequence[str], qos: str | None) -> float | None:
        graces = [0.0]
        rows = self._call("scontrol", "--oneliner", "show", "partition").splitlines()
        for row in (dict(word.partition("=")[::2] for word in line.split()) for line in rows):
            is_chosen = row.get("PartitionName") in partitions if partitions else row.get("Default") == "YES"
            if is_chosen and row.get("PreemptMode", "OFF") != "OFF":
                graces.append(float(row.get("GraceTime", "0")))
        if qos is not None:
            with contextlib.suppress(SlurmError):  # a site without accounts
                named = ("--noheader", "--parsable2", "show", "qos", qos, "format=GraceTime")
                graces.append(parse_time(self._call("sacctmgr", *named)) or 0.0)
        return min((each for each in graces if each), default=None)

    def some_host(self, partitions: Sequence[str]) -> str | None:
        named = [f"--partition={','.join(partitions)}"] if partitions else []
        said = self._call("sinfo", "--noheader", "--Node", *named, "--Format=NodeAddr:200")
        return next((line.strip() for line in said.splitlines() if line.strip()), None)

    def expected_wait_s(self, arguments: Sequence[str], script: str, time_s: float) -> float | None:
        """Slurm's own estimate for a job that would be submitted now; None: it has none."""
        limit = f"--time={_minutes(time_s)}"
        said = self._call("sbatch", "--test-only", limit, *arguments, text=script, both=True)
        found = re.search(r"to start at (\d+)", said)
        return None if found is None else max(0.0, float(found[1]) - time.time())

    def past_waits_s(self, partitions: Sequence[str], days: int = 7) -> tuple[float, ...]:
        """Of this user's jobs that started lately; raises where the site keeps no accounts."""
        named = [f"--partition={','.join(partitions)}"] if partitions else []
        said = self._call(
            *("sacct", "--allocations", "--noheader", "--parsable2", f"--starttime=now-{days}days"),
            *(*named, "--format=Eligible,Start"),
        )
        pairs = [line.split("|") for line in said.splitlines()]
        return tuple(
            max(0.0, float(pair[1]) - float(pair[0]))
            for pair in pairs
            if len(pair) == 2 and all(part.isdigit() for part in pair)
        )

    def _call(self, command: str, *arguments: str, text: str = "", both: bool = False) -> str:
        program = shutil.which(command)
        if program is None:
            raise SlurmAbsentError(
                f"there is no {command} on this machine, expected one where Slurm is set up"
            )
        try:
            done = subprocess.run(  # noqa: S603
                [program, *arguments],
                input=text,
                capture_output=True,
                text=True,
                timeout=_CALL_S,
                check=False,
                env={**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise SlurmBusyError(f"{command}: no answer for {_CALL_S:.0f} s") from None
        if done.returncode != 0:
            raise error_of(command, done.stderr or done.stdout)
        return done.stdout + (done.stderr if both else "")
