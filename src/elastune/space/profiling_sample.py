"""Which configurations to measure, so that a few tell which hyperparameters matter for the speed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elastune.model.configuration import Configuration
from elastune.model.encoded import Encoding
from elastune.space.sampler import Sampler

# Enough to hold configurations near the corners of a space of a few hyperparameters.
_CANDIDATES = 512


def draw(sampler: Sampler, count: int) -> list[Configuration]:
    """The first configurations of a sampler, fewer if it ends; of a small space, some more than once."""
    found = []
    for trial in range(count):
        if (config := sampler.ask(trial)) is None:
            break
        found.append(config)
    return found


def _each_once(configurations: Sequence[Configuration]) -> list[Configuration]:
    found: dict[str, Configuration] = {}
    for config in configurations:
        found.setdefault(repr(sorted(config.items())), config)
    return list(found.values())


def space_filling(
    sampler: Sampler, count: int, first: Sequence[Configuration] = ()
) -> tuple[Configuration, ...]:
    """`count` of the sampler's configurations, the `first` ones included, that lie far apart.

    Greedy maximin (Johnson, Moore and Ylvisaker 1990): from the middle of the space, each next one is the
    candidate farthest from all chosen ones; those with a category that no chosen one has come first.
    """
    candidates = [*first, *_each_once(draw(sampler, _CANDIDATES))]
    if len(candidates) <= count:
        return tuple(candidates)
    encoding = Encoding.of(candidates)
    rows, _ = encoding.rows(candidates)
    numbers = [each.start for each in encoding.columns if each.is_numeric]
    categories = np.delete(rows, numbers, axis=1)
    rows[:, numbers] /= np.ptp(rows[:, numbers], axis=0)
    rows[:, np.delete(np.arange(rows.shape[1]), numbers)] /= 2.0  # two indicators differ, and count as one
    chosen = list(range(min(count, len(first))))
    if not chosen:
        chosen = [int(np.abs(rows - rows.mean(axis=0)).sum(axis=1).argmin())]
    while len(chosen) < count:
        apart = np.abs(rows[:, None, :] - rows[None, chosen, :]).sum(axis=2).min(axis=1)
        is_new = (categories > categories[chosen].max(axis=0, initial=0.0)).any(axis=1)
        best = int(np.lexsort((-apart, ~is_new))[0])
        if apart[best] <= 0.0:
            break
        chosen.append(best)
    return tuple(candidates[at] for at in chosen)
