"""Runs nodes as Slurm jobs.

The head of the run is on this machine, a login node. Its address and token are in a file that only the user
can read, in a folder that all machines see; a job reads it when it starts, which may be hours after it was
submitted, and by then by another driver.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from elastune.model.ids import NodeId
from elastune.providers.protocol import ProviderSetting
from elastune.providers.ray_cluster import FinalCheck, RayLink
from elastune.providers.remote.brokered import BootResult, BrokeredProvider, failed_in_a_row
from elastune.providers.remote.head import LEASE_S, RemoteHead, own_address
from elastune.providers.remote.node import NodeSpec
from elastune.providers.slurm.broker import JobBroker, JobPurpose
from elastune.providers.slurm.calls import JobPhase, SlurmCalls, SlurmCommands, SlurmError, SlurmRefusedError
from elastune.providers.slurm.options import SlurmOptions
from elastune.providers.slurm.script import job_arguments, job_script

_log = logging.getLogger("elastune")

_MARGIN_S = 600.0
"""A job is asked for this much longer than it is needed."""
_MOST_LOGS = 4
_MOST_LOG_BYTES = 20_000
_LAST_S = 60.0
"""For the last jobs to end. A controller that does not answer takes some ten seconds to say so."""


class SlurmProvider(BrokeredProvider[JobBroker]):
    """`calls` and `ray_link` are for tests; with a `ray_link`, no head is started."""

    service = "Slurm"
    service_error = SlurmError
    refusal = SlurmRefusedError
    first_look_tries = 6

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_gpus: int = 0,
        slot_cpus: int = 1,
        calls: SlurmCalls | None = None,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus, ray_link=ray_link)
        self._options = SlurmOptions.parse(setting.options)
        self._calls = calls or SlurmCommands()
        self._head: RemoteHead | None = None
        self._most_time_s: float | None = None
        self._grace_s: float | None = None
        self._logs: dict[NodeId, str] = {}
        base = Path(self._options.folder or "~/.elastune/slurm").expanduser()
        self._folder = base / setting.run

    def connect(self) -> None:
        options = self._options
        self._most_time_s = self._calls.most_time_s(options.partition)
        self._grace_s = self._calls.grace_s(options.partition, options.qos)
        if self._ray_link is None:
            self._start_head()

    def disconnect(self) -> None:
        """Jobs that start later find no file, and end."""
        if self._head is not None:
            self._spec_file.unlink(missing_ok=True)
            self._head.close()
            self._head = None

    def close(self) -> None:
        was_open = self._broker is not None
        try:
            super().close()
        finally:
            if was_open and self._final_check is not None and not self._final_check.left:
                shutil.rmtree(self._folder, ignore_errors=True)

    def broker_clock(self) -> float:
        return self._setting.clock()

    def make_broker(self) -> JobBroker:
        setting, options = self._setting, self._options
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._head is not None:
            self._write_spec(self._head)
        arguments = job_arguments(options, cpus=self._node_cpus, gpus=self._node_gpus)
        python = options.python or sys.executable
        return JobBroker(
            self._calls,
            JobPurpose(
                run=setting.run,
                job=setting.job,
                max_nodes=setting.terms.max_nodes,
                usd_per_hour=setting.terms.price_per_hour,
                script=job_script(python, str(self._spec_file), options.setup),
                arguments=arguments,
                output=str(self._folder / "%A_%a.log"),
                notice_s=options.notice,
                expected_queue_s=setting.terms.queue.mean,
                patience_s=options.patience,
                grace_s=self._grace_s,
            ),
            clock=setting.clock,
            wall=time.time,
            lease_s=self._lease_s,
            needed_s=self._time_s,
            luck=Random(setting.seed),  # noqa: S311  only to spread retries of several drivers
        )

    def after_round(self, broker: JobBroker) -> str | None:
        self._keep_logs(broker)
        gone = None if self._head is None else self._head.broken
        return gone or self._hopeless_boot(broker)

    def end_and_check(self, broker: JobBroker) -> FinalCheck:
        broker.wind_up()
        left: tuple[str, ...] = broker.alive()
        how = "listing of Slurm"
        until = time.monotonic() + _LAST_S
        while time.monotonic() < until:
            try:
                broker.work()
                broker.cancel_all()
                jobs = self._calls.jobs(self._setting.run)
                left, how = (
                    tuple(job.id for job in jobs if job.phase is not JobPhase.ENDED),
                    "listing of Slurm",
                )
            except SlurmError as error:
                how = f"Slurm could not be asked ({error}); listing failed"
            else:
                if not left:
                    break
            time.sleep(0.5)
        return FinalCheck.now(left, how)

    def end_unchecked(self, broker: JobBroker) -> FinalCheck:
        left, how = broker.alive(), "Slurm could not be asked to cancel them"
        with contextlib.suppress(Exception):  # the interrupt is what gets raised
            broker.cancel_all()
            left, how = (), "Slurm was asked to cancel them, result not checked,"
        return FinalCheck.now(left, how)

    def billed_s(self, node: NodeId) -> float | None:
        return self._opened().billed_s(node)

    def outlived_s(self, node: NodeId, age_s: float, down_s: float) -> float:
        known = self.billed_s(node)
        if known is not None:
            return max(0.0, known - age_s)
        return min(down_s, max(LEASE_S, self._options.lost_head_after))

    def boot_logs(self) -> Mapping[NodeId, str]:
        with self._lock:
            return dict(self._logs)

    # Private.

    def _start_head(self) -> None:
        host = self._options.address or self._calls.some_host(self._options.partition)
        if host is None:
            names = ", ".join(self._options.partition) or "of this user"
            raise SlurmRefusedError(f"the partitions {names} have no nodes")
        self._head = RemoteHead(self._setting, own_address(self._options.address, host), self._options.ports)
        self._head.open()
        self._ray_link = RayLink()

    @property
    def _spec_file(self) -> Path:
        return self._folder / "node.json"

    def _lease_s(self) -> float | None:
        until_s = self._until_s
        return None if until_s is None else min(LEASE_S, until_s - self._setting.clock())

    def _time_s(self) -> float | None:
        """The time limit of a job that is submitted now."""
        until_s = self._setting.needed_until()
        needed_s = None if until_s is None else max(0.0, until_s - self._setting.clock()) + _MARGIN_S
        wanted = self._options.time_limit or needed_s
        if wanted is None or self._most_time_s is None:
            return wanted
        return min(wanted, self._most_time_s)

    def _write_spec(self, head: RemoteHead) -> None:
        """For all jobs of the run, also those that an earlier driver submitted."""
        assert head.address is not None
        spec = NodeSpec(
            head=head.address,
            token=head.token,
            node="",
            cpus=self._node_cpus,
            gpus=self._node_gpus,
            lease_s=LEASE_S,
            lost_head_s=self._options.lost_head_after,
            notice_s=self._options.notice,
            ports=self._options.ports,
        )
        new = self._spec_file.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(spec.encode())
        new.replace(self._spec_file)

    def _keep_logs(self, broker: JobBroker) -> None:
        """Of jobs that ended before their node was up; the folder will be removed."""
        for id_ in broker.failed_starts():
            if NodeId(id_) in self._logs or len(self._logs) >= _MOST_LOGS:
                continue
            text = ""
            with contextlib.suppress(OSError):
                data = (self._folder / f"{id_}.log").read_bytes()[-_MOST_LOG_BYTES:]
                text = data.decode(errors="replace").strip()
            job = broker.records[id_].job
            where = f"job {id_} ({job.state.lower()}) on {job.host or 'an unknown node'}"
            missing = f"{where} wrote nothing into {self._folder}; do all machines see this folder?"
            self._logs[NodeId(id_)] = f"{where}\n{text}" if text else missing
            _log.warning("%s ended before it was up: %s", id_, (text or missing).splitlines()[-1])

    def _hopeless_boot(self, broker: JobBroker) -> str | None:
        in_a_row = failed_in_a_row(
            BootResult(
                node=id_,
                token=record.job.request,
                is_up=record.machine is not None and record.machine.ready_s is not None,
                has_failed=record.is_failed_start,
            )
            for id_, record in broker.records.items()
        )
        if not in_a_row:
            return None
        last = self._logs.get(NodeId(in_a_row[-1]), next(reversed(self._logs.values()), "")).splitlines()
        why = f"; the last: {last[-1]}" if last else ""
        return f"{len(in_a_row)} jobs in a row ended before their node was up, and more would{why}"
