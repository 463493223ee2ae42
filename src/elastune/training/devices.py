"""The device of a slot. One that asks for GPUs must have them: training on the CPU would be paid as a GPU."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from elastune.errors import JobError
from elastune.wording import plural

LOGICAL_GPUS = "ELASTUNE_LOGICAL_GPUS"
"""Environment variable: GPUs of slots are only counted, and training is on the CPU. For tests of clusters."""
# NVIDIA, AMD, and NVIDIA in the Windows subsystem for Linux.
_DEVICE_FILES = ("nvidia[0-9]*", "kfd", "dxg")


def count_gpus() -> int | None:
    """The GPUs that torch can use or, without torch, 1 if there are any; None: they are logical."""
    if os.environ.get(LOGICAL_GPUS):
        return None
    if importlib.util.find_spec("torch") is not None:
        import torch  # noqa: PLC0415  slow; needed anyway where GPUs are

        return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
    return int(any(any(Path("/dev").glob(pattern)) for pattern in _DEVICE_FILES))


def find_device(gpus: int, *, where: str = "here", count: Callable[[], int | None] = count_gpus) -> str:
    """For a slot of `gpus` GPUs: cpu or cuda:0. Raises `JobError` if the machine lacks them."""
    if not gpus:
        return "cpu"
    found = count()
    if found is None:
        return "cpu"
    has_torch = importlib.util.find_spec("torch") is not None
    if found < (gpus if has_torch else 1):
        what = "torch can use" if has_torch else "there is"
        raise JobError(
            f"slot asks for {plural(gpus, 'GPU')}, but {what} {found or 'none'} {where}: training would be "
            "on the CPU at the price of a GPU; expected slot: {cpus: 1}, or machines with GPUs, their driver "
            "and a torch with CUDA"
        )
    return "cuda:0" if has_torch else "cpu"
