"""A real Slurm that keeps accounts, with slurmdbd and a MariaDB of its own from Debian's packages."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.slurm.rig import SlurmRig, find_program, why_not
from tests.waiting import wait_until

ACCOUNT, SMALL, FEW, GRACE = "team", "small", "few", "patient"
"""An account without limits; one that may run one job at a time, and one that may submit two; a QOS with a
grace time of 40 s."""
_MORE = "mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr", "sacct"

_DAEMON = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={daemon}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=root
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
"""


class AccountingRig(SlurmRig):
    more_ports = 2

    def configuration(self) -> str:
        self._database, self._daemon = self.ports[-self.more_ports :]
        none = "AccountingStorageType=accounting_storage/none"
        kept = [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self._daemon}",
            f"AccountingStoragePass={self.folder}/munge.socket",
            "AccountingStorageEnforce=associations,limits,qos",
        ]
        usual = super().configuration()
        assert none in usual
        return usual.replace(none, "\n".join(kept))

    def prepare(self) -> None:
        """Before the controller starts."""
        database, data = self._database, self.folder / "data"
        install = [find_program("mariadb-install-db") or "", "--no-defaults", f"--datadir={data}"]
        subprocess.run([*install, "--user=root", "--skip-test-db"], check=True, capture_output=True)
        self.run(
            "mariadbd",
            *("--no-defaults", f"--datadir={data}", "--user=root", "--skip-grant-tables"),
            *(f"--socket={self.folder}/database.socket", f"--pid-file={self.folder}/database.pid"),
            *("--bind-address=127.0.0.1", f"--port={database}", "--innodb-flush-log-at-trx-commit=0"),
        )
        wait_until(lambda: _answers(database), lambda: f"no database\n{self.log_of('mariadbd')}")
        settings = self.folder / "slurmdbd.conf"
        settings.touch(0o600)
        host = socket.gethostname().partition(".")[0]
        settings.write_text(
            _DAEMON.format(folder=self.folder, host=host, daemon=self._daemon, database=database)
        )
        self.run("slurmdbd", "-D")
        wait_until(lambda: _answers(self._daemon), lambda: f"no slurmdbd\n{self.log_of('slurmdbd')}")
        for line in (
            "cluster elastune",
            f"account {ACCOUNT}",
            f"account {SMALL}",
            f"account {FEW}",
            f"qos {GRACE} GraceTime=40 Flags=DenyOnLimit",
            f"user root account={ACCOUNT}",
            f"user root account={SMALL}",
            f"user root account={FEW}",
        ):
            self.call("sacctmgr", "--immediate", "add", *line.split())
        self.call("sacctmgr", "--immediate", "modify", "user", "root", "set", f"qos=normal,{GRACE}")
        for account, limit in ((SMALL, "GrpJobs=1"), (FEW, "MaxSubmitJobs=2")):
            self.call(*("sacctmgr", "--immediate", "modify", "account", account, "set", limit))

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-1500:]


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


@contextlib.contextmanager
def slurm_with_accounts() -> Iterator[AccountingRig]:
    reason = why_not()
    if reason is None and (missing := [name for name in _MORE if find_program(name) is None]):
        reason = f"{', '.join(missing)} not installed (Debian: slurmdbd mariadb-server)"
    if reason is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="elastune-slurm-", dir="/tmp"))
    rig = AccountingRig(folder, nodes=2)
    try:
        rig.start()
        yield rig
    finally:
        rig.stop()
        shutil.rmtree(folder, ignore_errors=True)
