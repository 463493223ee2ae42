"""Pictures of digits, made many: 1,797 are few, so each comes in some noisy versions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits


def digits(copies: int, *, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """For training and for validation, each of other pictures; of every one so many noisy versions."""
    pictures, labels = load_digits(return_X_y=True)
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(labels))
    cut = len(labels) // 5
    return _noisy(pictures, labels, order[cut:], copies, draw), _noisy(pictures, labels, order[:cut], 4, draw)


def _noisy(pictures: Any, labels: Any, chosen: Any, copies: int, draw: np.random.Generator) -> dict[str, Any]:
    noise = draw.normal(0.0, 4.0, (copies, len(chosen), pictures.shape[1]))
    noisy = (pictures[chosen] + noise).astype(np.float32).reshape(-1, pictures.shape[1]) / 16.0
    return {"pictures": noisy, "labels": np.tile(labels[chosen], copies)}
