"""Memory of a run whose training reads 480 MB of arrays on 4 slots of one node, with and without sharing.

`python -m benchmarks.runtime.shared_memory`. Four trials read all of the data and then wait while the
proportional set size (Pss: a page that n processes share counts 1/n for each) of all processes of the run is
added up, without Ray's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEGABYTES = 480
SLOTS = 4
_MARK = "ELASTUNE_BENCHMARK_MARK"
_PATIENCE_S = 600.0

# The lines that differ: what is done with the data, how the training gets them, and how the run names it.
WAYS = {
    "array in a closure or a global of the script": ("x = load()", "x", "train"),
    "`x = elastune.shared(x)` in the script": ("x = elastune.shared(load())", "x", "train"),
    "array in a global of a module": ("x = load()", "x", "'training.py:train'"),
    "`@elastune.shared` in a module": ("x = elastune.shared(load)", "x()", "'training.py:train'"),
}
_SCRIPT = """
import os, time
from pathlib import Path

import numpy as np
import elastune


def load():
    return np.ones({floats}, np.float32)


{made}
here = {here!r}


def train(config):
    total = float({used}.sum(dtype=np.float64))
    Path(here, f"ready-{{os.getpid()}}").write_text(str(total))
    while not Path(here, "go").exists():
        time.sleep(0.05)
    return {{"score": config["c"]}}
"""
_MAIN = """
import elastune

job = {{
    "trainable": {trainable},
    "space": {{"c": {{"float": [0.0, 1.0]}}}},
    "metric": "score",
    "search": {{"algorithm": "random", "trials": {slots}, "max_iterations": 1}},
    "hang_after": "1h",
    "profile": {{"iteration": 1, "startup": 1}},
    "cluster": {{"slots_per_node": {slots}, "nodes": 1, "price_per_hour": 1, "init": 60}},
}}
elastune.tune(job, check=False, folder={here!r})
"""


def measure(way: str) -> dict[str, float]:
    """Megabytes by kind of process, and the seconds until all trials have read the data."""
    made, used, trainable = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        code = _SCRIPT.format(floats=MEGABYTES * 10**6 // 4, made=made, here=folder, used=used)
        main = _MAIN.format(trainable=trainable, slots=SLOTS, here=folder)
        (here / "training.py").write_text(code)
        (here / "main.py").write_text(code + main if trainable == "train" else main)
        began = time.monotonic()
        environment = {**os.environ, _MARK: folder}
        with subprocess.Popen([sys.executable, "main.py"], cwd=here, env=environment) as driver:
            try:
                while len(list(here.glob("ready-*"))) < SLOTS:
                    if driver.poll() is not None or time.monotonic() - began > _PATIENCE_S:
                        raise RuntimeError(f"{way}: the trials did not start")
                    time.sleep(0.1)
                took_s = time.monotonic() - began
                found = _by_kind(driver.pid, folder)
            finally:
                (here / "go").touch()
    return {**found, "seconds": took_s}


def _by_kind(driver: int, mark: str) -> dict[str, float]:
    sums = {"driver": 0.0, "slots": 0.0}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"{_MARK}={mark}".encode() not in (entry / "environ").read_bytes():
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            rollup = (entry / "smaps_rollup").read_text()
        except OSError:
            continue
        kilobytes = next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
        pss = int(kilobytes) * 1024 / 1e6
        if int(entry.name) == driver:
            sums["driver"] += pss
        elif any(each in command for each in ("fork_server", "warm_process", "ElastuneAgent")):
            sums["slots"] += pss
    return sums


def main() -> None:
    print("| | driver | node: slot processes, their parents | together | until all trials had read |")
    print("|---|---:|---:|---:|---:|")
    for way in WAYS:
        found = measure(way)
        total = found["driver"] + found["slots"]
        print(
            f"| {way} | {found['driver']:,.0f} MB | {found['slots']:,.0f} MB | {total:,.0f} MB "
            f"| {found['seconds']:.0f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
