"""Optuna scripts on Elastune: `from elastune.adapters import optuna` in place of `import optuna`.

`create_study` and `load_study` give studies whose `optimize` is carried out by Elastune. All other names are
those of Optuna, such as `TrialPruned`, `samplers`, `visualization`. `trainable` and `space` are for a call of
`elastune.tune`; `tune` is one call in place of a study.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastune.adapters.optuna.objectives import trainable
    from elastune.adapters.optuna.study import Study, create_study, load_study, space
    from elastune.adapters.optuna.study import tune_objective as tune

__all__ = ["Study", "create_study", "load_study", "space", "trainable", "tune"]

# Loaded on first use: a worker needs only the objective.
_PLACES = {
    "Study": ("study", "Study"),
    "create_study": ("study", "create_study"),
    "load_study": ("study", "load_study"),
    "space": ("study", "space"),
    "trainable": ("objectives", "trainable"),
    "tune": ("study", "tune_objective"),
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        module, there = _PLACES[name]
        return getattr(importlib.import_module(f"{__name__}.{module}"), there)
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("optuna"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(importlib.import_module("optuna"))})
