"""Whether a configuration is one of a space, found out without the code under test."""

from __future__ import annotations

import json

from optuna.distributions import CategoricalDistribution

from elastune.model.configuration import Configuration, Scalar
from elastune.space.space import Distribution, Domain, Space


def active_names(space: Space, config: Configuration) -> set[str]:
    """What should be there beside these values: added until nothing more can be added."""
    there = set(space.constants)
    while True:
        more = {
            name
            for name, domain in space.domains.items()
            if all(each.parent in there and config[each.parent] in each.values for each in domain.when)
        }
        if more <= there:
            return there
        there |= more


def assert_inside(space: Space, config: Configuration) -> None:
    assert json.loads(json.dumps(config)) == config
    flat = space.flat(config)
    assert space.nested(flat) == config
    assert set(flat) == active_names(space, flat)
    assert list(flat) == [name for name in space.entries if name in flat]
    for name, value in flat.items():
        entry = space.entries[name]
        if isinstance(entry, Domain):
            assert_in_distribution(entry.distribution, value)
        else:
            assert value == entry


def assert_in_distribution(distribution: Distribution, value: Scalar) -> None:
    if isinstance(distribution, CategoricalDistribution):
        assert any(value == choice and type(value) is type(choice) for choice in distribution.choices)
    else:
        assert isinstance(value, int | float)
        assert type(value) is type(distribution.low)
        assert distribution._contains(value)
