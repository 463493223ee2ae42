"""How a space is written: `{lr: {float: [1e-4, 1.0], log: true}, act: [relu, tanh], epochs: 5}`.

A mapping without a kind is a group: `{optimizer: {name: [sgd, adam], lr: {float: [1e-4, 1.0]}}}`. Conditions
(`momentum: {float: [0.8, 0.99], when: {optimizer: sgd}}`) are refused if they name an unknown hyperparameter
or a value that it never has, or depend on each other. Inside a group they may name its members, and `when` of
a group holds for all members. All mistakes of a space are found at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from elastune.model.configuration import MOST_LEVELS, Scalar
from elastune.space import ray_style
from elastune.space.domain_parsing import Mistakes, choice, conditions, domain, is_domain, parse_value
from elastune.space.space import Condition, Domain, Path, Space, SpaceError
from elastune.space.values import NotInsideError, fitted, same
from elastune.wording import did_you_mean, either, seen

Entry = Domain | Scalar
_FORMS = "{float: [1e-4, 1.0], log: true}, {int: [1, 8]}, a list of choices or a constant"


def parse_space(written: object) -> Space:
    """A `Space` and Optuna's distributions are taken as they are; a function is a `FunctionSpace`."""
    if isinstance(written, Space):
        return written
    if not isinstance(written, Mapping) or not written:
        example = "{lr: {float: [1e-4, 1.0], log: true}}"
        raise SpaceError((), f"is {seen(written)}; expected hyperparameters by name, such as {example}")
    reader = _SpaceReader()
    reader.read_group((), written)
    return reader.space()


@dataclass(frozen=True, slots=True)
class _Pending:
    """A condition as written at `path`, whose parent is looked for in `group` first."""

    condition: Condition
    path: Path
    group: Path


class _SpaceReader:
    """Reads the groups of a space, then settles its conditions, and collects the mistakes of both."""

    def __init__(self) -> None:
        self._mistakes = Mistakes()
        self._entries: dict[str, Entry] = {}
        self._paths: dict[str, Path] = {}
        self._when: dict[str, list[_Pending]] = {}

    def read_group(self, path: Path, written: Mapping[Any, object], when: Sequence[_Pending] = ()) -> None:
        """The members of a group; `when` are the conditions of the groups around it."""
        if path and isinstance(written.get("when"), Mapping):
            place = (*path, "when")
            with self._mistakes:
                found = conditions(place, written["when"])
                when = [*when, *(_Pending(each, place, path[:-1]) for each in found)]
            written = {key: value for key, value in written.items() if key != "when"}
        for key, value in written.items():
            place = (*path, str(key))
            if len(place) > MOST_LEVELS:
                self._mistakes.add(
                    SpaceError(path, f"is in more than {MOST_LEVELS} groups inside each other")
                )
            elif isinstance(value, Mapping) and not is_domain(value):
                self.read_group(place, value, when)
            else:
                self._add(place, value, when)

    def _add(self, path: Path, written: object, when: Sequence[_Pending]) -> None:
        name = ".".join(path)
        if name in self._paths:
            text = "is given twice: as a member of a group, and by its dotted name; expected one of them"
            self._mistakes.add(SpaceError(path, text))
            return
        self._paths[name] = path
        with self._mistakes:
            entry = _entry(path, written)
            if when and not isinstance(entry, Domain):
                entry = Domain(distribution=CategoricalDistribution([entry]))
            own = entry.when if isinstance(entry, Domain) else ()
            self._when[name] = [*when, *(_Pending(each, (*path, "when"), path[:-1]) for each in own)]
            self._entries[name] = entry

    def space(self) -> Space:
        """Raises `SpaceError` with all mistakes."""
        settled = {name: self._settled(name, entry) for name, entry in self._entries.items()}
        domains = {name: entry for name, entry in settled.items() if isinstance(entry, Domain)}
        graph = {name: [each.parent for each in of.when] for name, of in domains.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1][::-1]
            text = f"is circular: {' on '.join(circle)}; remove one of these conditions"
            self._mistakes.add(SpaceError((*self._paths[circle[0]], "when"), text))
        self._mistakes.settle()
        return Space(settled, {name: path for name, path in self._paths.items() if len(path) > 1})

    def _settled(self, name: str, entry: Entry) -> Entry:
        """With each condition's values as its parent has them; a parent with a mistake is left out."""
        if not isinstance(entry, Domain):
            return entry
        found: list[Condition] = []
        for pending in self._when[name]:
            with self._mistakes:
                found += self._conditions(pending)
        return replace(entry, when=tuple(found))

    def _conditions(self, pending: _Pending) -> list[Condition]:
        place = (*pending.path, pending.condition.parent)
        parent = self._parent(place, pending)
        if parent not in self._entries:
            return []
        mistakes = Mistakes()
        values: list[Scalar] = []
        for value in pending.condition.values:
            with mistakes:
                values.append(_possible(place, value, self._entries[parent]))
        mistakes.settle()
        return [Condition(parent, tuple(values))]

    def _parent(self, place: Path, pending: _Pending) -> str:
        """A hyperparameter of the same group, or one by its full name."""
        written = pending.condition.parent
        inner = ".".join((*pending.group, written))
        if inner != written and {inner, written} <= self._paths.keys():
            raise SpaceError(place, f"may be {written} or {inner}; rename one of them")
        found = next((name for name in (inner, written) if name in self._paths), None)
        if found is None:
            expected = f"{either(self._paths)}{did_you_mean(written, self._paths)}"
            raise SpaceError(place, f"is no hyperparameter of this space; expected {expected}")
        return found


def _possible(path: Path, value: Scalar, owner: Entry) -> Scalar:
    if not isinstance(owner, Domain):
        if same(value, owner):
            return owner
        raise SpaceError(path, f"is {seen(value)}, which is impossible: {path[-1]} is always {seen(owner)}")
    try:
        return fitted(owner.distribution, value)
    except NotInsideError as error:
        raise SpaceError(path, f"is {seen(value)}, which is impossible: {path[-1]} is {error}") from None


def _entry(path: Path, written: object) -> Entry:  # noqa: PLR0911  one case per form
    match written:
        case Domain():
            return written
        case CategoricalDistribution():
            return choice(path, written.choices)
        case FloatDistribution() | IntDistribution():
            return Domain(distribution=written)
        case list() | tuple():
            return choice(path, written)
        case Mapping():
            return domain(path, written)
        case str() if (call := ray_style.from_text(path, written)) is not None:
            return domain(path, call)
        case None:
            raise SpaceError(path, f"is empty; expected {_FORMS}")
        case _ if ray_style.is_ray(written):
            return domain(path, ray_style.from_object(path, written))
        case _:
            constant = parse_value(path, written)
            assert not isinstance(constant, list | dict)
            return constant  # type: ignore[return-value]  # lists and mappings are choices and groups
