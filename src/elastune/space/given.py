"""A configuration of which some values are given: they are checked, the others are drawn."""

from __future__ import annotations

from elastune.space.membership import NotInsideError, fitted, same
from elastune.space.sampler import AnySpace, Configuration
from elastune.space.space import Distribution, Domain, Draw, Scalar, Space, SpaceError
from elastune.wording import did_you_mean, either, seen, several


def completed(space: AnySpace, given: Configuration, draw: Draw) -> dict[str, Scalar]:
    """Raises `SpaceError` for a value outside its domain and for a name that this configuration has not.

    A value that is only there under a condition brings what it needs: `{momentum: 0.9}` means sgd.
    """
    needed = _needed(space, given) if isinstance(space, Space) and space.is_conditional else {}
    drawn: set[str] = set()

    def choose(name: str, distribution: Distribution) -> Scalar:
        drawn.add(name)
        if name not in given:
            value = draw(name, distribution)
            allowed = needed.get(name)
            return value if allowed is None or value in allowed else allowed[0]
        try:
            return fitted(distribution, given[name])
        except NotInsideError as error:
            raise SpaceError((name,), f"is {seen(given[name])}; expected {error}") from None

    configuration = space.configure(choose)
    for name, value in given.items():
        if name not in configuration:
            raise SpaceError((name,), _not_there(space, name, configuration))
        if name not in drawn and not same(configuration[name], value):
            raise SpaceError((name,), f"is {seen(value)}; expected {seen(configuration[name])}, a constant")
    return configuration


def _needed(space: Space, given: Configuration) -> dict[str, list[Scalar]]:
    """The values that hyperparameters need to have for all given ones to be there."""
    needed: dict[str, list[Scalar]] = {}
    domains = space.in_order
    for name in reversed(domains):
        if name not in given and name not in needed:
            continue
        for condition in domains[name].when:
            before = needed.get(condition.parent)
            both = [value for value in condition.values if before is None or value in before]
            # Where two contradict each other, one of them will not be there, and that is said then.
            needed[condition.parent] = both or list(condition.values)
    return needed


def _not_there(space: AnySpace, name: str, configuration: Configuration) -> str:
    if isinstance(space, Space) and isinstance(domain := space.entries.get(name), Domain):
        missing = [
            f"{condition.parent} is {either(map(str, condition.values))}"
            for condition in domain.when
            if configuration.get(condition.parent) not in condition.values
        ]
        return f"is given, but is only there when {' and '.join(missing)}"
    known = list(space.entries if isinstance(space, Space) else configuration)
    hint = did_you_mean(name, known)
    return f"is no hyperparameter of this configuration; expected one of: {several(known)}{hint}"
