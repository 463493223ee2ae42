"""Ray Tune scripts on Elastune: `from elastune.adapters import ray_tune as tune` in place of `ray.tune`.

What trains and searches is Elastune's: `report`, `get_checkpoint`, `get_context`, `with_parameters`, `Tuner`,
`run`. All other names are those of `ray.tune`, such as `loguniform`, `TuneConfig`, `Checkpoint`, `Trainable`.
`trainable` and `space` are for a call of `elastune.tune`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from elastune.adapters.ray_tune.session import get_checkpoint, get_context, rays, report

if TYPE_CHECKING:
    from elastune.adapters.ray_tune.results import Analysis, ResultGrid
    from elastune.adapters.ray_tune.spaces import space
    from elastune.adapters.ray_tune.trainables import trainable, with_parameters
    from elastune.adapters.ray_tune.tuner import Tuner, run

__all__ = [
    "Analysis", "ResultGrid", "Tuner", "get_checkpoint", "get_context", "report", "run", "space", "trainable",
    "with_parameters",
]  # fmt: skip

# Loaded on first use: a worker needs only the session.
_MODULES = {
    "results": ("Analysis", "ResultGrid"),
    "spaces": ("space",),
    "trainables": ("trainable", "with_parameters"),
    "tuner": ("Tuner", "run"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return rays(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(importlib.import_module("ray.tune"))})
