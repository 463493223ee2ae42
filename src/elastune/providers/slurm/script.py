"""The batch script of a job, and the arguments of sbatch that follow from a job's options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from elastune.providers.slurm.options import SlurmOptions

NO_FOLDER, NO_SETUP = 72, 73
"""Exit codes of the script: it cannot read the run's file; a command of `setup` failed."""

_SCRIPT = """#!/bin/bash
# A node of a run of Elastune. It ends itself when its run is over, or does not answer any more.
fail() {{ echo "elastune: failed: $1"; exit "$2"; }}
{setup}
[ -r {spec} ] ||
  fail "$(hostname) cannot read "{spec}": the run is over, or it does not see this folder" {no_folder}
exec {python} -u -m elastune.providers.remote.node \\
  {spec} "node=${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}" \\
  preempted={preempted}
"""


def job_script(python: str, spec: str, setup: Sequence[str] = ()) -> str:
    """`python` starts the node, `spec` is the file that it reads."""
    lines = [f"{line} || fail {shlex.quote(f'setup: {line}')} {NO_SETUP}" for line in setup]
    return _SCRIPT.format(
        setup="\n".join(lines) or ":",
        spec=shlex.quote(spec),
        no_folder=NO_FOLDER,
        python=shlex.quote(python),
        preempted=shlex.quote(f"{shlex.quote(python)} -m elastune.providers.slurm.grace"),
    )


SAME = ("--nodes=", "--ntasks=", "--no-requeue", "--signal=")
"""The beginnings of the arguments that do not follow from the job."""


def job_arguments(options: SlurmOptions, *, cpus: int, gpus: int) -> list[str]:
    """Of sbatch. Every job is one task on one machine, which Slurm must not start again by itself: the run
    asks for another node instead."""
    named = {
        "partition": ",".join(options.partition),
        "account": options.account,
        "qos": options.qos,
        "constraint": options.constraint,
        "mem": options.memory or ("0" if options.exclusive else None),
        "gres": options.gres or (f"gpu:{gpus}" if gpus else None),
        "cpus-per-task": str(cpus) if cpus else None,
    }
    return [
        *("--nodes=1", "--ntasks=1", "--no-requeue", f"--signal=B:USR1@{round(options.notice)}"),
        *(f"--{name}={value}" for name, value in named.items() if value),
        *(["--exclusive"] if options.exclusive else []),
        *options.extra,
    ]
