"""A campaign on a real Slurm: drivers are killed at random moments, and their jobs have to end by themselves.

`python -m tests.providers.slurm.kills --seeds 50` prints a line for each kill and the number of jobs that are
left. A driver is a process with a provider, a real Ray head and real nodes; it asks for nodes and releases
them until it is killed with SIGKILL. Every third is only stopped (SIGSTOP) and killed later.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from elastune.model.cluster import ClusterTerms
from elastune.providers.protocol import ProviderSetting
from elastune.providers.slurm.provider import SlurmProvider
from tests.providers.slurm.rig import SlurmRig, running_slurm

PATIENCE_S = 400.0


def drive(seed: int, folder: str) -> None:
    """Until it is killed."""
    luck = random.Random(f"driver {seed}")
    terms = ClusterTerms(slots_per_node=1, max_nodes=4, price_per_hour=1.0)
    options = {"folder": folder, "lost_head_after": "5s", "address": "127.0.0.2"}
    setting = ProviderSetting(run=f"k{seed}", terms=terms, clock=time.monotonic, options=options)
    provider = SlurmProvider(setting)
    provider.open()
    sys.stdout.write("open\n")
    sys.stdout.flush()
    number = 0
    while True:
        number += 1
        provider.request(str(number), luck.randint(1, 2))
        until = time.monotonic() + luck.uniform(0.5, 15.0)
        while time.monotonic() < until:
            survey = provider.survey()
            time.sleep(0.1)
        machines = [machine.node for machine in survey.machines]
        provider.release(luck.sample(machines, luck.randint(0, len(machines))))


def kill_one(seed: int, rig: SlurmRig) -> tuple[int, float, list[str]]:
    """How many jobs the driver had, how long they took to end, and which did not."""
    luck = random.Random(f"kill {seed}")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "tests.providers.slurm.kills",
            "--drive",
            str(seed),
            "--folder",
            folder,
        ]
        env = {**os.environ, **rig.environment}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, start_new_session=True) as driver:
            assert driver.stdout is not None
            driver.stdout.readline()
            time.sleep(luck.choice([0.0, 0.3, 1.0, 3.0, luck.uniform(3.0, 25.0)]))
            if seed % 3 == 2:
                driver.send_signal(signal.SIGSTOP)
                time.sleep(luck.uniform(0.0, 4.0))
            driver.kill()
        before, began = len(rig.jobs()), time.monotonic()
        while (left := rig.jobs()) and time.monotonic() - began < PATIENCE_S:
            time.sleep(0.5)
        for name in Path(folder).glob("*/*.log"):
            name.unlink()
    return before, time.monotonic() - began, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--drive", type=int)
    parser.add_argument("--folder")
    chosen = parser.parse_args()
    if chosen.drive is not None:
        drive(chosen.drive, chosen.folder)
    total = jobs = 0
    with running_slurm(nodes=3) as rig:
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            before, took_s, left = kill_one(seed, rig)
            total, jobs = total + len(left), jobs + before
            sys.stdout.write(
                f"kill {seed}: {before} jobs, ended after {took_s:.1f} s, left {left or 'none'}\n"
            )
            sys.stdout.flush()
            rig.empty()
    sys.stdout.write(f"{chosen.seeds} kills, {jobs} jobs, {total} left\n")


if __name__ == "__main__":
    main()
