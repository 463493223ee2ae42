"""A small job that is right, as data, for the tests to vary."""

from __future__ import annotations

import copy


def job_data(**changes: object) -> dict[str, object]:
    """The data of a job; a change names its key with `__` for the dot, and `...` leaves the key out."""
    data: dict[str, object] = {
        "search": {"algorithm": "sha", "trials": 9, "max_iterations": 10},
        "deadline": "20m",
        "profile": {"iteration": "60s"},
        "cluster": {"slots_per_node": 4, "price_per_hour": 12.24},
    }
    for name, value in changes.items():
        *above, key = name.split("__")
        target = data
        for part in above:
            inner = target[part]
            assert isinstance(inner, dict)
            target = inner
        if value is ...:
            del target[key]
        else:
            target[key] = copy.deepcopy(value)
    return data
