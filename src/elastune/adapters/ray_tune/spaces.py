"""The `param_space` of a `Tuner`: nested, with ranges of `ray.tune`, `grid_search` and `sample_from`.

A configuration of Elastune has one level and plain values: `{"model": {"lr": 0.1}}` is `model/lr`, as in Ray
Tune's own tables, and a value that is a list, a dict or any other object has a text that stands for it.
`ConfigLayout` makes Ray Tune's configuration of it again. Ranges are read by `elastune.space.ray_style`;
those without ends, and functions, can be used where Ray Tune's own generator draws the configurations.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from optuna.distributions import CategoricalDistribution

from elastune.errors import JobError
from elastune.model.configuration import Scalar
from elastune.space.parsing import parse_space
from elastune.space.ray_style import is_ray
from elastune.space.space import Domain, Space, SpaceError
from elastune.space.values import NotInsideError, fitted, same
from elastune.wording import seen

Path = tuple[Any, ...]
FlatConfig = dict[str, Scalar]
_GRID = "grid_search"
# A space must have a hyperparameter; this one stands for a `param_space` without any.
_NONE: dict[str, Scalar] = {"hyperparameters": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLayout:
    """From flat configurations to nested ones. `objects` are those that a text stands for, by name."""

    paths: Mapping[str, Path]
    fixed: Mapping[str, Any]
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, param_space: Mapping[str, Any]) -> ConfigLayout:
        if not isinstance(param_space, Mapping):
            raise JobError(f"param_space is {seen(param_space)}; expected a dict of hyperparameters by name")
        leaves = list(_leaves(param_space))
        paths = {"/".join(map(str, path)): path for path, _ in leaves}
        if len(paths) != len(leaves):
            names = ["/".join(map(str, path)) for path, _ in leaves]
            twice = next(name for name in names if names.count(name) > 1)
            raise JobError(f"param_space has two hyperparameters that are called {twice}; rename one")
        layout = cls(paths=paths, fixed=_without_ranges(param_space))
        for path, value in leaves:
            for choice in _choices(value) or ():
                layout.label("/".join(map(str, path)), choice)
        return layout

    def label(self, name: str, value: Any) -> Scalar:
        """The value itself if it is plain, else the text that stands for it."""
        if (plain := _plain(value)) is not _NOT_PLAIN:
            return plain  # type: ignore[no-any-return]
        known = self.objects.setdefault(name, {})
        for label, each in known.items():
            if each is value or _is_equal(each, value):
                return label
        text = first = _text(value)
        number = 1
        while text in known:
            number += 1
            text = f"{first} ({number})"
        known[text] = value
        return text

    def flat(self, nested: Mapping[str, Any]) -> FlatConfig:
        """Of a configuration that Ray Tune's generator has drawn; constants that are not plain are absent."""
        drawn = {name: _at(nested, path) for name, path in self.paths.items()}
        named = {name: self.label(name, value) for name, value in drawn.items()}
        return {**named, **_constants(self.fixed)} or dict(_NONE)

    def nested(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Names that are not of this layout are split at their slashes."""
        whole: dict[str, Any] = copy.deepcopy(dict(self.fixed))
        for name, value in config.items():
            if name in _NONE:
                continue
            objects = self.objects.get(name, {})
            held = copy.deepcopy(objects[value]) if isinstance(value, str) and value in objects else value
            place = whole
            *groups, last = self.paths.get(name, tuple(name.split("/")))
            for group in groups:
                place = place.setdefault(group, {})
            place[last] = held
        return whole

    def space(self, param_space: Mapping[str, Any], drawn: Sequence[FlatConfig] = ()) -> Space:
        """Where a range cannot be carried over, or does not hold what was drawn, the drawn values."""
        entries: dict[str, object] = dict(_constants(self.fixed))
        for name, path in self.paths.items():
            values = [config[name] for config in drawn]
            entries[name] = self._entry(name, _at(param_space, path), values)
        return parse_space(entries or _NONE)

    def _entry(self, name: str, value: Any, drawn: Sequence[Scalar]) -> object:
        choices = _choices(value)
        if choices is not None:
            return {"choice": _different([self.label(name, each) for each in choices])}
        try:
            (domain,) = parse_space({name: value}).entries.values()
        except SpaceError:
            if not drawn:
                raise
            return {"choice": _different(drawn)}
        if isinstance(domain, Domain) and all(_holds(domain, each) for each in drawn):
            return domain
        return {"choice": _different(drawn)}


def space(param_space: Mapping[str, Any]) -> Space:
    """The space of `elastune.tune` for the `param_space` of a `Tuner`. Raises `SpaceError` for a range
    without ends and for `sample_from`; the `Tuner` of this module takes those too."""
    return ConfigLayout.of(param_space).space(param_space)


def _leaves(tree: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The ranges, choices and functions in it."""
    for name, value in tree.items():
        if is_ray(value) or _is_grid(value):
            yield (*path, name), value
        elif isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        elif isinstance(value, list | tuple) and any(is_ray(each) or _is_grid(each) for each in value):
            place = ".".join(map(str, (*path, name)))
            raise JobError(
                f"param_space.{place} is a list with ranges in it; give each a name: "
                f"{{'{name}': {{'first': tune.uniform(0, 1), ...}}}}"
            )


def _is_grid(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {_GRID}


def _without_ranges(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_ranges(value) if isinstance(value, Mapping) else value
        for name, value in tree.items()
        if not is_ray(value) and not _is_grid(value)
    }


def _constants(tree: Mapping[str, Any], prefix: str = "") -> FlatConfig:
    """The plain ones, which are shown with each configuration."""
    found: FlatConfig = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found |= _constants(value, f"{prefix}{name}/")
        elif value is not None and (plain := _plain(value)) is not _NOT_PLAIN:
            found[f"{prefix}{name}"] = plain
    return found


def _choices(value: Any) -> list[Any] | None:
    """None: it is no list of choices."""
    if _is_grid(value):
        return list(value[_GRID])
    return list(value.categories) if type(value).__name__ == "Categorical" and is_ray(value) else None


def _at(tree: Mapping[str, Any], path: Path) -> Any:
    value: Any = tree
    for key in path:
        value = value[key]
    return value


_NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    """`_NOT_PLAIN` for anything that a journal cannot hold as it is."""
    if value is None or isinstance(value, bool | str):
        return str(value) if type(value) is not str and isinstance(value, str) else value
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    return _NOT_PLAIN


def _text(value: Any) -> str:
    if isinstance(value, Mapping | list | tuple):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            pass
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else seen(value)


def _is_equal(one: Any, other: Any) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # noqa: BLE001  arrays and other objects may refuse to be compared
        return False


def _different(values: Sequence[Scalar]) -> list[Scalar]:
    found: list[Scalar] = []
    for value in values:
        if not any(same(value, each) or value == each for each in found):
            found.append(value)
    return found


def _holds(domain: Domain, value: Scalar) -> bool:
    try:
        found = fitted(domain.distribution, value)
    except NotInsideError:
        return False
    return isinstance(domain.distribution, CategoricalDistribution) or found == value


def draw(
    param_space: Mapping[str, Any],
    *,
    samples: int,
    points: Sequence[Mapping[str, Any]] = (),
    constant_grid: bool = False,
    random_state: Any = None,
) -> list[dict[str, Any]]:
    """The configurations of Ray Tune's own generator, in its order: each sample is a whole grid.

    `random_state` is that of a `BasicVariantGenerator`; None: numpy's global one, as there.
    """
    from ray.tune.search.sample import _BackwardsCompatibleNumpyRng  # noqa: PLC0415  slow
    from ray.tune.search.variant_generator import _get_preset_variants, generate_variants  # noqa: PLC0415

    rng = _BackwardsCompatibleNumpyRng(None) if random_state is None else random_state
    options = {"constant_grid_search": constant_grid, "random_state": rng}
    found: list[dict[str, Any]] = []
    for number in range(max(samples, len(points))):
        spec = {"config": copy.deepcopy(dict(param_space))}
        if number < len(points):
            variants = _get_preset_variants(spec, dict(points[number]), **options)
        else:
            variants = generate_variants(spec, **options)
        found += [variant["config"] for _, variant in variants]
    return found
