"""Asked by a node that was told to end: is its job pre-empted with a grace time? Prints how many seconds are
left, and fails if the job is ending."""

from __future__ import annotations

import os
import sys

from elastune.providers.slurm.calls import SlurmCommands, SlurmError


def main() -> None:
    try:
        left_s = SlurmCommands().left_s(os.environ["SLURM_JOB_ID"])
    except (KeyError, SlurmError) as error:
        sys.exit(f"{error}")
    if left_s is None:
        sys.exit("the job does not run any more")
    sys.stdout.write(f"{left_s}\n")


if __name__ == "__main__":
    main()
