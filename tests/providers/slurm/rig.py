"""A real Slurm on this machine, from Debian's packages: a controller and some nodes, all on the loopback.

Its configuration, keys, sockets and state are in a folder of its own, and its ports are free ones. Every
process is started here in the foreground and ended by its id.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastune.providers.local.processes import dying_with_parent, tagged
from tests.waiting import wait_until

RIG = "ELASTUNE_SLURM_RIG"
"""In the environment of all that the rig starts: its folder."""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")

_CONFIGURATION = """
ClusterName=elastune
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=50000
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
SlurmdTimeout=20
KillWait=5
MinJobAge=300
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=h[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=2
PartitionName=short Nodes=ALL MaxTime=1 PriorityTier=2
PartitionName=closed Nodes=ALL State=DOWN
PartitionName=lent Nodes=ALL PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL PriorityTier=9
"""


def why_not() -> str | None:
    """Why no Slurm can be started here."""
    missing = [name for name in PROGRAMS if find_program(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: slurmctld slurmd slurm-client munge)"
    return None if os.geteuid() == 0 else "only root can start a Slurm"


def find_program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def free_ports(count: int) -> list[int]:
    """Side by side, as a range of nodes needs them."""
    for first in range(21000 + os.getpid() % 500 * 20, 60000, 40):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                probe = stack.enter_context(socket.socket())
                probe.bind(("127.0.0.1", port))
            return list(range(first, first + count))
    raise AssertionError("no free ports")


class SlurmRig:
    """`environment` makes the commands of Slurm use this one."""

    more_ports = 0

    def __init__(self, folder: Path, nodes: int = 4) -> None:
        self.folder = folder
        self.nodes = nodes
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), RIG: str(folder)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self.ports = free_ports(self.nodes + 1 + self.more_ports)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(0o400)
        key.write_bytes(os.urandom(1024))
        self.run(
            "munged",
            *("--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket"),
            *(f"--{name}-file={self.folder}/munged.{name}" for name in ("pid", "log", "seed")),
        )
        wait_until((self.folder / "munge.socket").exists, "munged did not start")
        (self.folder / "slurm.conf").write_text(self.configuration(), encoding="utf-8")
        self.prepare()
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self.start_node(f"h{number}")
        wait_until(lambda: self._idle() == self.nodes, lambda: f"not all nodes are idle\n{self.logs()}")

    def prepare(self) -> None:
        """What the controller needs."""

    def configuration(self) -> str:
        controller, *ports = self.ports[: self.nodes + 1]
        return _CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            folder=self.folder,
            nodes=self.nodes,
            controller=controller,
            ports=f"[{ports[0]}-{ports[-1]}]",
        )

    def start_controller(self) -> None:
        self.run("slurmctld", "-D")

    def start_node(self, name: str) -> None:
        self.run("slurmd", "-D", "-N", name, name=name)

    def stop_controller(self) -> None:
        """It saves its state, as it does every few seconds, too."""
        process = self._processes.pop("slurmctld")
        process.terminate()
        process.wait()

    def kill(self, name: str) -> None:
        """slurmctld, or a node: as if its machine had lost its power."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def call(self, *command: str, is_checked: bool = True) -> str:
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not is_checked, f"{command}: {done.stderr}"
        return done.stdout

    def jobs(self) -> list[str]:
        """All that are neither over nor completing."""
        listed = self.call("squeue", "--array", "--noheader", "--format=%i %T").splitlines()
        return [line for line in listed if not line.endswith("COMPLETING")]

    def empty(self) -> None:
        """Cancel what a test has left, and wait until all nodes are free."""
        self.call("scancel", "--user=root", "--quiet", is_checked=False)
        self.call("scontrol", "update", "NodeName=ALL", "State=RESUME", is_checked=False)  # after a crash
        wait_until(
            lambda: self._idle() == self.nodes, lambda: f"not all idle\n{self.call('squeue')}{self.logs()}"
        )

    def logs(self) -> str:
        logs = [path for path in sorted(self.folder.glob("*.log")) if path.stem in {"slurmctld", "h1"}]
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in logs)

    def stop(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self.call("scancel", "--user=root", "--quiet")
        for name in reversed(tuple(self._processes)):
            self.kill(name)
        for pid in tagged(RIG, str(self.folder)):
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)

    def _idle(self) -> int:
        said = self.call("sinfo", "--Node", "--noheader", "--partition=main", "--format=%t", is_checked=False)
        return said.split().count("idle")

    def run(self, program: str, *arguments: str, name: str | None = None) -> None:
        found = find_program(program)
        assert found is not None
        with (self.folder / f"{name or program}.log").open("ab") as log:
            self._processes[name or program] = subprocess.Popen(
                [found, *arguments],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509
            )


@contextlib.contextmanager
def running_slurm(nodes: int = 4) -> Iterator[SlurmRig]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="elastune-slurm-", dir="/tmp"))
    rig = SlurmRig(folder, nodes)
    try:
        rig.start()
        yield rig
    finally:
        rig.stop()
        shutil.rmtree(folder, ignore_errors=True)
