"""What a run on a real Slurm was predicted to take, and what it took.

`python -m tests.providers.slurm.promises` runs the same job several times. Its iterations sleep for a second,
and it does not say how long nodes boot: the first run shows that, and the quotes of the others know it, also
those of later calls with the same `--folder`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.hosts.cluster_run import ClusterRun
from tests.providers.slurm.rig import SlurmRig, running_slurm


class TimedRun(ClusterRun):
    def __init__(self, folder: Path) -> None:
        search = {"algorithm": "sha", "trials": 8, "min_iterations": 10, "max_iterations": 80, "eta": 2}
        options = {"folder": str(folder / "jobs"), "price_per_node_hour": 1.0}
        super().__init__(
            folder,
            {"provider": "slurm", "max_nodes": 4, "slots_per_node": 1, "options": options},
            pause=1.0,
            search={**search, "max_slots_per_trial": 1},
            profile={"iteration": "1s", "startup": "0.5s", "save": "0.1s"},
            checkpoint_every="1h",
            mode="min",
            deadline="4m",
        )

    def job(self, cluster: object, store: str) -> dict[str, object]:
        made = super().job(self.cluster, store)
        for key in ("nodes", "price_per_hour", "init"):
            del made["cluster"][key]
        return made


def measure(rig: SlurmRig, folder: Path) -> str:
    run = TimedRun(Path(tempfile.mkdtemp(dir=folder)))
    run.cluster["options"]["folder"] = str(folder / "jobs")  # the same options, so the same boots
    run.start()
    result = run.result()
    assert rig.jobs() == []
    words = [str(result["ending"])]
    for name, unit in (("jct_seconds", "s"), ("cost", "$")):
        predicted, actual = result["predicted"][name], result["actual"][name]
        off = actual / predicted - 1.0
        words.append(f"{unit} {predicted:.4g} predicted, {actual:.4g} actual, {off:+.1%}")
    return "; ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as own, running_slurm() as rig:
        folder = chosen.folder or Path(own)
        os.environ.update(rig.environment)
        os.environ["ELASTUNE_HOME"] = str(folder / "home")
        for _ in range(chosen.runs):
            sys.stdout.write(f"{measure(rig, folder)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
