"""Runs nodes as Slurm jobs: the broker works in its own thread, and no method waits for Slurm.

The head of the run is on this machine, a login node. Its address and token are in a file that only the user
can read, in a folder that all machines see; a job reads it when it starts, which may be hours after it was
submitted, and by then by another driver.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

from elastune.errors import ExecutionError, InvariantError
from elastune.model.ids import NodeId
from elastune.providers.protocol import Price, ProviderSetting, Survey, check_request
from elastune.providers.ray_cluster import FinalCheck, RayLink, RayProviderBase
from elastune.providers.remote.head import LEASE_S, RemoteHead, own_address
from elastune.providers.remote.node import NodeSpec
from elastune.providers.slurm.broker import JobBroker, JobPurpose
from elastune.providers.slurm.calls import JobPhase, SlurmCalls, SlurmCommands, SlurmError, SlurmRefusedError
from elastune.providers.slurm.options import SlurmOptions
from elastune.providers.slurm.script import job_arguments, job_script

_log = logging.getLogger("elastune")

_FIRST_LOOK_TRIES = 6
_FRESH_S = 0.5
"""A survey reuses a listing of Ray's nodes that is younger than this."""
_MOST_FAILED_STARTS = 4
_MARGIN_S = 600.0
"""A job is asked for this much longer than it is needed."""
_MOST_LOGS = 4
_MOST_LOG_BYTES = 20_000
_LAST_S = 60.0
"""For the last jobs to end. A controller that does not answer takes some ten seconds to say so."""


class SlurmProvider(RayProviderBase):
    """`calls` and `ray_link` are for tests; with a `ray_link`, no head is started."""

    def __init__(
        self,
        setting: ProviderSetting,
        *,
        slot_gpus: int = 0,
        slot_cpus: int = 1,
        calls: SlurmCalls | None = None,
        ray_link: RayLink | None = None,
    ) -> None:
        super().__init__(setting, slot_cpus, slot_gpus)
        self._options = SlurmOptions.parse(setting.options)
        self._calls = calls or SlurmCommands()
        self._ray_link = ray_link
        self._head: RemoteHead | None = None
        self._broker: JobBroker | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ends = False
        self._asked: dict[str, int] = {}
        self._inbox: list[Callable[[JobBroker], None]] = []
        self._released: set[NodeId] = set()
        """Released, and not yet known to the broker."""
        self._survey = Survey(at_s=0.0)
        self._broken: str | None = None
        self._most_time_s: float | None = None
        self._ray_nodes: Mapping[str, str] = {}
        self._looked_s: float | None = None
        self._final_check: FinalCheck | None = None
        self._logs: dict[NodeId, str] = {}
        base = Path(self._options.folder or "~/.elastune/slurm").expanduser()
        self._folder = base / setting.run

    # Open and close.

    def open(self) -> None:
        """Start the head, and list what an earlier driver of this run has left."""
        if self._broker is not None or self._ends:
            raise InvariantError("the Slurm provider is open already, or was; make a new one")
        try:
            self._most_time_s = self._calls.most_time_s(self._options.partition)
            if self._ray_link is None:
                self._start_head()
            self._broker = self._make_broker()
            self._first_look(self._broker)
        except BaseException as error:
            self._broker = None  # it has submitted nothing
            self._close_head()
            if isinstance(error, SlurmError):
                raise ExecutionError(f"Slurm cannot be used: {error}") from None
            raise
        self._thread = threading.Thread(target=self._serve, name="elastune-slurm", daemon=True)
        self._thread.start()

    def _start_head(self) -> None:
        host = self._options.address or self._calls.some_host(self._options.partition)
        if host is None:
            names = ", ".join(self._options.partition) or "of this user"
            raise SlurmRefusedError(f"the partitions {names} have no nodes")
        self._head = RemoteHead(self._setting, own_address(self._options.address, host))
        self._head.open()
        self._ray_link = RayLink()

    def close(self) -> None:
        """Cancel every job of the run, and check that they are gone. May be repeated."""
        broker, thread = self._broker, self._thread
        self._ends = True
        self._wake.set()
        try:
            if thread is not None:
                thread.join()
            if broker is not None:
                self._final_check = self._end_all(broker)
        except BaseException:  # interrupted: one call to cancel everything, unchecked
            if broker is not None:
                with contextlib.suppress(SlurmError):
                    broker.cancel_all()
                    self._final_check = FinalCheck.now(
                        (), "Slurm was asked to cancel them, result not checked,"
                    )
            raise
        finally:
            self._broker = self._thread = None
            self._close_head()
            if broker is not None and self._final_check is not None and not self._final_check.left:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _close_head(self) -> None:
        """Jobs that start later find no file, and end."""
        if self._head is not None:
            self._spec_file.unlink(missing_ok=True)
            self._head.close()
            self._head = None

    def _end_all(self, broker: JobBroker) -> FinalCheck:
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

    def final_check(self) -> FinalCheck | None:
        return self._final_check

    # The methods of a provider.

    def request(self, token: str, count: int) -> None:
        self._opened()
        check_request(token, count, self._asked.get(token))
        self._asked[token] = count
        self._post(lambda broker: broker.request(token, count))

    def survey(self) -> Survey:
        self._opened()
        self._look_at_ray()
        with self._lock:
            last = self._survey
            machines = tuple(each for each in last.machines if each.node not in self._released)
        return replace(last, at_s=max(last.at_s, self._setting.clock()), machines=machines)

    def release(self, nodes: Collection[NodeId]) -> None:
        self._opened()
        gone = frozenset(nodes)
        with self._lock:
            self._released |= gone
        self._post(lambda broker: broker.release(gone))

    def limit_nodes(self, most: int) -> None:
        super().limit_nodes(most)
        self._post(lambda broker: broker.limit_nodes(most))

    def price(self) -> Price:
        terms = self._setting.terms
        return Price.of(terms, terms.price_source)

    # The additional methods for Ray.

    @property
    def broken(self) -> str | None:
        """Slurm refuses permanently, or the head is gone."""
        return self._broken

    @property
    def is_elsewhere(self) -> bool:
        return True

    def ray_node(self, node: NodeId) -> str | None:
        return self._ray_nodes.get(node)

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

    def _opened(self) -> JobBroker:
        if self._broker is None:
            raise InvariantError("the Slurm provider is not open: call open() before, nothing after close()")
        return self._broker

    def _post(self, order: Callable[[JobBroker], None]) -> None:
        with self._lock:
            self._inbox.append(order)
        self._wake.set()

    @property
    def _spec_file(self) -> Path:
        return self._folder / "node.json"

    def _look_at_ray(self) -> None:
        now_s = self._setting.clock()
        if self._ray_link is None or (self._looked_s is not None and 0 <= now_s - self._looked_s < _FRESH_S):
            return
        self._looked_s = now_s
        joined, leaving = self._ray_link.joined(), self._ray_link.leaving()
        new = [job for job in joined if job not in self._ray_nodes]
        ahead_s = now_s - time.time()
        noticed = {job: leaving[node] + ahead_s for job, node in joined.items() if node in leaving}
        self._ray_nodes = {**self._ray_nodes, **joined}
        up = tuple(new)
        if up:
            self._post(lambda broker: _join(broker, up, now_s))
        if noticed:
            self._post(lambda broker: broker.notice(noticed))

    def _serve(self) -> None:
        """The thread: pass the run's calls to the broker, make the calls that are due, update the survey."""
        trouble: str | None = None
        while not self._ends:
            broker = self._broker
            if broker is None:
                return
            self._wake.clear()
            with self._lock:
                inbox, self._inbox = self._inbox, []
                released = frozenset(self._released)
            try:
                for order in inbox:
                    order(broker)
                due_s = broker.work()
                survey = broker.survey()
            except Exception as error:  # noqa: BLE001  our bug: better a suspended run than one that waits
                _log.exception("the Slurm provider broke")
                self._broken = f"the Slurm provider broke: {error!r}"
                return
            if broker.trouble is not None and broker.trouble != trouble:
                _log.warning("Slurm: %s; trying again", broker.trouble)
            trouble = broker.trouble
            self._keep_logs(broker)
            with self._lock:
                self._survey = survey
                self._released -= released
                gone = None if self._head is None else self._head.broken
                self._broken = broker.broken or gone or self._hopeless_boot(broker)
            self._wake.wait(max(0.0, min(due_s - self._setting.clock(), 5.0)))

    def _make_broker(self) -> JobBroker:
        setting, options = self._setting, self._options
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._head is not None:
            self._write_spec(self._head)
        arguments = job_arguments(options, cpus=self._node_cpus, gpus=self._node_gpus)
        python = options.python or sys.executable
        command = f"{shlex.quote(python)} -u -m elastune.providers.remote.node"
        return JobBroker(
            self._calls,
            JobPurpose(
                run=setting.run,
                job=setting.job,
                max_nodes=setting.terms.max_nodes,
                usd_per_hour=setting.terms.price_per_hour,
                script=job_script(command, str(self._spec_file), options.setup),
                arguments=arguments,
                output=str(self._folder / "%A_%a.log"),
                notice_s=options.notice,
                expected_queue_s=setting.terms.queue.mean,
                patience_s=options.patience,
            ),
            clock=setting.clock,
            wall=time.time,
            lease_s=self._lease_s,
            needed_s=self._time_s,
            luck=Random(setting.seed),  # noqa: S311  only to spread retries of several drivers
        )

    def _lease_s(self) -> float | None:
        until_s = self._setting.lease()
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

    def _first_look(self, broker: JobBroker) -> None:
        for tries in range(_FIRST_LOOK_TRIES):
            try:
                broker.look_afresh()
            except SlurmError as error:
                if tries == _FIRST_LOOK_TRIES - 1 or isinstance(error, SlurmRefusedError):
                    raise
                time.sleep(min(8.0, 0.5 * 2**tries))
            else:
                break
        self._survey = broker.survey()

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
        """Jobs that end themselves while they boot, one after the other, would go on to do so."""
        in_a_row: list[str] = []
        for id_, record in broker.records.items():
            if record.machine is not None and record.machine.ready_s is not None:
                in_a_row.clear()
            elif record.is_failed_start:
                in_a_row.append(id_)
        tokens = {broker.records[id_].job.request for id_ in in_a_row}
        if len(in_a_row) < _MOST_FAILED_STARTS or len(tokens) < 2:
            return None
        last = self._logs.get(NodeId(in_a_row[-1]), next(reversed(self._logs.values()), "")).splitlines()
        why = f"; the last: {last[-1]}" if last else ""
        return f"{len(in_a_row)} jobs in a row ended before their node was up, and more would{why}"


def _join(broker: JobBroker, jobs: Collection[str], at_s: float) -> None:
    for job in jobs:
        broker.join(job, at_s)
