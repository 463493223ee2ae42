"""A process that called `warm_up` can be forked: the children train, alone and together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

SCRIPT = """
import os, sys, traceback
from elastune.training import Solo, make_worker, open_recipe
from elastune.training.groups import open_rendezvous
from elastune.training.running import join, warm_up

warm_up()
status = open("/proc/self/status").read() if os.path.exists("/proc/self/status") else "Threads: 0"
lazy = set(sys.modules)

from tests.training.models import Network

meeting = open_rendezvous("127.0.0.1")

def train(rank):
    if rank == 0:
        group = join(meeting.host, meeting.port, rank=0, size=2, timeout_s=300, rendezvous=meeting)
    else:
        host, port = meeting.host, meeting.port
        meeting.close()
        group = join(host, port, rank=1, size=2, timeout_s=300)
    worker = make_worker(group, seed=1, threads=2)
    training = open_recipe(Network, name="network").start({"lr": 0.1, "batch": 10}, worker, None)
    for worker.iteration in (1, 2, 3):
        row = training.step()
    group.close()
    later = sorted(m for m in set(sys.modules) - lazy if m.startswith("torch"))
    os.write(1, f"{rank} {row['loss']:.6f} {len(later)}\\n".encode())

children = []
for rank in range(2):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(rank)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    children.append(child)
meeting.close()
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
worker = make_worker(Solo(), seed=1)
training = open_recipe(Network, name="network").start({"lr": 0.1, "batch": 10}, worker, None)
for worker.iteration in (1, 2, 3):
    row = training.step()
print("codes", *codes)
print("alone", f"{row['loss']:.6f}")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here")
def test_processes_forked_after_warming_up_train_together() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    lines = done.stdout.split("\n")
    assert "codes 0 0" in lines, done.stdout + done.stderr
    loss = next(line for line in lines if line.startswith("alone")).split()[1]
    ranks = sorted(line.split() for line in lines if line[:2] in ("0 ", "1 "))
    # The last number: modules of torch that a training imports although the process was warm.
    assert ranks == [["0", loss, "0"], ["1", loss, "0"]]
