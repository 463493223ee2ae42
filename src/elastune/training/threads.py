"""How many threads the libraries of one worker may use, so that the slots of a node do not get in each
other's way."""

from __future__ import annotations

import os
import sys

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads(count: int) -> None:
    """For what is imported already and what will be."""
    os.environ.update(dict.fromkeys(_VARIABLES, str(count)))
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415
    except ImportError:
        pass  # it comes with scikit-learn; without it, numpy keeps its own number
    else:
        threadpool_limits(count)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(count)
