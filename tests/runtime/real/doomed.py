"""A driver that is killed before, between or after two of its commands; and then the next one.

`python -m tests.runtime.real.doomed JOB FOLDER COMMAND` is such a driver: it dies when it has carried out so
many commands. `python -m tests.runtime.real.doomed --seeds 50` is the campaign.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import elastune
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.core import commands as do
from elastune.core.commands import AnyCommand
from elastune.history.result import RunResult
from elastune.runtime.ray.runtime import RayRuntime
from tests.runtime.real.runs import job_of
from tests.waiting import PATIENCE_S

# Of a run of the job below that is not disturbed there are a few more.
MOST_COMMANDS = 18
_SILENT = (do.Note, do.SetTimer, do.CancelTimer)


def write_job(folder: Path) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job_of().to_dict(), sort_keys=False))
    return path


def undisturbed() -> RunResult:
    """What the search finds: the simulator knows, since the trainable is deterministic."""
    learn = {"trainable": lambda config, iteration: {"score": config["x"] + 0.001 * iteration}}
    return elastune.simulate(job_of().model_copy(update=learn))


def interrupt(job: Path | str, folder: Path, command: int) -> int:
    """A driver that dies at that command; returns its exit status. The job "last" resumes the last run."""
    line = [sys.executable, "-m", "tests.runtime.real.doomed", str(job), str(folder), str(command)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        return driver.wait(PATIENCE_S)


def survive(seed: int, root: Path) -> RunResult:
    """Die once or twice at random commands, and go on to the end."""
    luck = random.Random(seed)
    job = write_job(root)
    folder = root / "runs"
    if interrupt(job, folder, luck.randrange(MOST_COMMANDS)) == 0:
        (line,) = elastune.list_runs(folder).runs
        raise AssertionError(f"the run was over before it could be killed: {line}")
    return elastune.resume("last", folder=folder)


def _die_at(command: int) -> None:
    """Kill this process when the body is about to carry out its so many-eth command; of two neighbours in
    the journal the first may thus be done and the second not."""
    carry_out, count = RayRuntime.carry_out, 0

    def deadly(body: RayRuntime, order: AnyCommand) -> None:
        nonlocal count
        if not isinstance(order, _SILENT):
            if count == command:
                body.fleet.send()
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
        carry_out(body, order)

    RayRuntime.carry_out = deadly  # type: ignore[assignment, method-assign]


def _campaign(seeds: int, first: int) -> None:
    expected = undisturbed().best
    wrong = 0
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory() as root:
            try:
                best = survive(seed, Path(root)).best
            except Exception as error:  # noqa: BLE001  the campaign goes on
                best = None
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
        right = (
            best is not None
            and expected is not None
            and (best.trial, best.metric)
            == (
                expected.trial,
                expected.metric,
            )
        )
        wrong += not right
        print(f"seed {seed}: {'right' if right else f'WRONG: {best}, expected {expected}'}", flush=True)
    print(f"{seeds - wrong} of {seeds} right")


if __name__ == "__main__":
    if "--seeds" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--seeds", type=int, default=50)
        parser.add_argument("--first", type=int, default=0)
        options = parser.parse_args()
        _campaign(options.seeds, options.first)
    else:
        _die_at(int(sys.argv[3]))
        if sys.argv[1] == "last":
            elastune.resume("last", folder=sys.argv[2])
        else:
            carry_out_run(prepare_to_run(sys.argv[1]), folder=sys.argv[2])
