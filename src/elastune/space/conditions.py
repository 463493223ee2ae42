"""When a hyperparameter is there: `momentum: {float: [0.8, 0.99], when: {optimizer: sgd}}`.

Decides in which order hyperparameters are settled, and refuses conditions that cannot be: on a hyperparameter
that is not there, on a value that it never has, on each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from elastune.space.membership import NotInsideError, fitted, same
from elastune.space.space import Condition, Domain, Scalar, SpaceError
from elastune.wording import did_you_mean, either, seen

Entries = Mapping[str, Domain | Scalar]


def checked(entries: Entries) -> dict[str, Domain | Scalar]:
    """The entries with each condition's values as its parent has them; raises `SpaceError`."""
    settled = {name: _checked_entry(name, entry, entries) for name, entry in entries.items()}
    graph = {name: _parents(entry) for name, entry in settled.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        first = circle[-1]
        shown = " on ".join(reversed(circle))
        raise SpaceError((first, "when"), f"goes round in a circle: {shown}; take one of them out") from None
    return settled


def _parents(entry: Domain | Scalar) -> list[str]:
    return [condition.parent for condition in entry.when] if isinstance(entry, Domain) else []


def _checked_entry(name: str, entry: Domain | Scalar, entries: Entries) -> Domain | Scalar:
    if not isinstance(entry, Domain) or not entry.when:
        return entry
    when = tuple(_checked_condition((name, "when"), condition, entries) for condition in entry.when)
    return Domain(distribution=entry.distribution, grid=entry.grid, when=when)


def _checked_condition(path: tuple[str, ...], condition: Condition, entries: Entries) -> Condition:
    parent = condition.parent
    if parent not in entries:
        known = either(entries)
        hint = did_you_mean(parent, entries)
        raise SpaceError((*path, parent), f"is no hyperparameter of this space; expected {known}{hint}")
    owner = entries[parent]
    return Condition(parent, tuple(_possible((*path, parent), value, owner) for value in condition.values))


def _possible(path: tuple[str, ...], value: Scalar, owner: Domain | Scalar) -> Scalar:
    if not isinstance(owner, Domain):
        if same(value, owner):
            return owner
        raise SpaceError(path, f"is {seen(value)}, which never is; {path[-1]} is always {seen(owner)}")
    try:
        return fitted(owner.distribution, value)
    except NotInsideError as error:
        raise SpaceError(path, f"is {seen(value)}, which never is; {path[-1]} is {error}") from None
