"""A process beside the driver of a run that outlives it: when the lease is over, it ends the pods of the run.

It reads the lease where `elastune nodes` reads it, so a driver that takes over keeps the pods. It ends when
the run has nothing any more. It is started as `python -m elastune.providers.kubernetes.keeper`, with a line
of JSON on its standard input: cluster, group, run, context, namespace.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from elastune.providers.kubernetes.api import (
    KubernetesApi,
    KubernetesError,
    KubernetesRefusedError,
    find_access,
)
from elastune.providers.kubernetes.calls import ABSENT, GroupCalls, RayClusterCalls
from elastune.providers.kubernetes.options import KubernetesOptions
from elastune.providers.kubernetes.sweeping import drop_run

_LOOK_S = 15.0
_ABSENT_S = 120.0
"""A run that has had nothing in the group for so long is over."""


def start_keeper(run: str, options: KubernetesOptions) -> subprocess.Popen[bytes]:
    keeper = subprocess.Popen(
        [sys.executable, "-m", "elastune.providers.kubernetes.keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert keeper.stdin is not None
    names = ("cluster", "group", "context", "namespace")
    task = {"run": run, **{name: getattr(options, name) for name in names}}
    keeper.stdin.write(f"{json.dumps(task)}\n".encode())
    keeper.stdin.close()
    return keeper


def keep(
    calls: GroupCalls,
    run: str,
    *,
    wall: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Until the run has nothing any more, or never had anything: its driver could not open the group."""
    seen, had_share = wall(), False
    while wall() - seen < _ABSENT_S:
        try:
            share = calls.group().shares.get(run)
            if share is not None:
                seen, had_share = wall(), True
                if share.expires is None or share.expires <= seen:
                    drop_run(calls, run)
        except KubernetesError as error:
            is_gone = isinstance(error, KubernetesRefusedError) and error.code == ABSENT
            if had_share and not is_gone:
                seen = wall()  # a server that is away for long will come back, with the pods
        sleep(_LOOK_S)


def main() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    task = json.loads(sys.stdin.readline())
    access = find_access(task["context"], task["namespace"])
    keep(RayClusterCalls(KubernetesApi(access), task["cluster"], task["group"]), task["run"])


if __name__ == "__main__":
    main()
