"""Iterations that all workers of a hopping run trained at once, trained again by processes of this machine.

As many processes as the gang had members form a group and train their shares in the recorded order. Sums over
the members are added up in the same order for a gang of the same size, so the weights are the same, bit for
bit. A *spell* is what one gang trained without a break: some things in it, such as the order in which torch
sums gradients, depend on the first iteration of a gang.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from elastune.checkpoints.encoding import decode, encode
from elastune.data.partition_cache import SlotPartitions
from elastune.errors import ExecutionError, JobError
from elastune.job.job import Job
from elastune.journal.records import RuntimeKind
from elastune.journal.run_folders import FoundRun, find_run
from elastune.journal.store import Journal
from elastune.runs.code_bundle import CodeShipment, ship
from elastune.runs.reopening import started_of
from elastune.runs.resuming import at_home
from elastune.setup.data import open_data
from elastune.training.groups import Rendezvous, open_rendezvous
from elastune.training.running import join
from elastune.training.visits import Conditions, train_together
from elastune.training.worker import make_worker, trial_seed

_HOST = "127.0.0.1"
_FORMING_S = 120.0
_ORDER, _STATE = "order", "state"


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """What trained in a run: its code, with its data."""

    found: FoundRun
    job: Job
    shipment: CodeShipment
    partitions: SlotPartitions

    @classmethod
    def of(cls, found: FoundRun) -> ReplaySource:
        record = found.record
        if record.body is not RuntimeKind.RAY:
            raise JobError(f"run {record.run} is simulated and has no training to replay")
        journal = Journal.open(found.journal, read_only=True)
        job = at_home(Job.from_dict(started_of(record, journal).job, source=f"run {record.run}"), found)
        if job.data is None:
            raise JobError(f"run {record.run} did not hop; expected a run with execution: hopper")
        shipment = ship(job, job.metric or "metric")
        dataset = open_data(job, found.folder.path.absolute(), shipment.recipe)
        if dataset is None:
            raise JobError("the job has no partitioned data; expected the data of a hopping run")
        limit = None if job.data.memory is None else int(job.data.memory * 1e9)
        return cls(found, job, shipment, SlotPartitions(dataset, limit, None))

    def conditions(self, trial: int) -> Conditions:
        seed = trial_seed(self.found.record.seed, trial)
        return Conditions(seed=seed, threads=self.job.slot.cpus or 1, trial=trial)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSpell:
    """`shares`: the partitions of each member, in order. `state`: before the first iteration, encoded."""

    run_folder: str
    trial: int
    config: Mapping[str, Any]
    first: int
    last: int
    shares: Sequence[Sequence[int]]
    state: bytes | None


def train_spell(spell: GangSpell) -> bytes:
    """The encoded state after the last iteration."""
    rendezvous = open_rendezvous(_HOST)
    port, handle = rendezvous.port, rendezvous.take()
    with TemporaryDirectory(prefix="elastune-replay-") as name:
        folder = Path(name)
        (folder / _ORDER).write_bytes(pickle.dumps(spell))
        members: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(len(spell.shares)):
                command = [sys.executable, "-m", __name__, name, str(rank), str(port), str(handle)]
                own = () if rank else (handle,)
                members.append(subprocess.Popen(command, pass_fds=own))  # noqa: S603  our own module
        finally:
            os.close(handle)
        _wait(members, spell)
        return (folder / _STATE).read_bytes()


def _wait(members: Sequence[subprocess.Popen[bytes]], spell: GangSpell) -> None:
    """When one fails, the others would wait for it."""
    with ThreadPoolExecutor(max_workers=len(members)) as waiting:
        ranks = {waiting.submit(member.wait): rank for rank, member in enumerate(members)}
        failed = None
        try:
            for over in as_completed(ranks):
                if over.result() and failed is None:
                    failed = ranks[over]
                    _kill(members)
        finally:
            _kill(members)
    if failed is not None:
        raise ExecutionError(
            f"member {failed} of {len(members)}, which train iteration {spell.first} of trial {spell.trial} "
            "again, failed; the reason is above"
        )


def _kill(members: Sequence[subprocess.Popen[bytes]]) -> None:
    for member in members:
        if member.poll() is None:
            member.kill()


def _train_member(folder: Path, rank: int, port: int, handle: int) -> None:
    spell: GangSpell = pickle.loads((folder / _ORDER).read_bytes())  # noqa: S301  written by our parent
    source = ReplaySource.of(find_run(Path(), spell.run_folder))
    own = None if rank else Rendezvous(socket.socket(fileno=handle))
    group = join(_HOST, port, rank=rank, size=len(spell.shares), timeout_s=_FORMING_S, rendezvous=own)
    try:
        terms = source.conditions(spell.trial)
        worker = make_worker(
            group, seed=terms.seed, device=terms.device, threads=terms.threads, trial=spell.trial
        )
        state = None if spell.state is None else decode(spell.state, pickles=source.job.pickles)
        training = source.shipment.recipe.start(dict(spell.config), worker, state)
        try:
            for iteration in range(spell.first, spell.last + 1):
                worker.iteration = iteration
                if train_together(worker, training, source.partitions, spell.shares[rank]) is None:
                    raise ExecutionError(f"trial {spell.trial} trains nothing in iteration {iteration}")
            if not rank:
                (folder / _STATE).write_bytes(encode(training.save(), pickles=source.job.pickles))
        finally:
            training.close()
    finally:
        group.close()


if __name__ == "__main__":
    _train_member(Path(sys.argv[1]), *map(int, sys.argv[2:]))
