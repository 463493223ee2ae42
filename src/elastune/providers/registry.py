"""The providers by name: those that come with Elastune, and those that other packages install.

A package offers one as an entry point of the group `elastune.providers`: a function from `Setting` to
`Provider`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points

from elastune.cluster import ClusterTerms
from elastune.errors import JobError
from elastune.providers.protocol import Provider
from elastune.providers.simulated import SimulatedProvider
from elastune.wording import seen

GROUP = "elastune.providers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All that a provider is told about the run it works for."""

    run: str
    """Its id. Machines carry it as a tag, so that the run finds them again after a crash."""
    terms: ClusterTerms
    clock: Callable[[], float]
    seed: int = 0
    expires_s: float | None = None
    """Time-to-live of every node, counted from its start."""
    lease: Callable[[], float | None] = lambda: math.inf
    """Until when, by the run's clock, nodes may live if nobody watches them; None: not known yet. Where nodes
    outlive their driver, each carries this and ends itself then, unless a living driver has put it off."""
    down_s: float | None = None
    """How long ago the driver before this one went down; None: this is the first."""
    job: str = ""
    """Its name, for people."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Of this provider alone (region, image, ...). It checks them, and raises JobError."""


ProviderFactory = Callable[[Setting], Provider]


def simulate(setting: Setting) -> Provider:
    """A kind virtual cloud. For faults, make a `SimulatedProvider` yourself."""
    if setting.options:
        raise JobError(
            f"the simulated provider has no options, but was given {', '.join(sorted(setting.options))}"
        )
    return SimulatedProvider(
        setting.terms, seed=setting.seed, clock=setting.clock, expires_s=setting.expires_s
    )


def stay_local(setting: Setting) -> Provider:
    """Ray nodes on this machine. What one slot is, is an option; to be opened before use."""
    from elastune.providers.local import LocalProvider  # noqa: PLC0415 - it needs Setting

    unknown = setting.options.keys() - {"slot_cpus", "slot_gpus"}
    if unknown:
        raise JobError(
            f"the local provider has the options slot_cpus and slot_gpus, but was given "
            f"{', '.join(sorted(unknown))}"
        )
    amounts = {name: _count(name, value) for name, value in setting.options.items()}
    return LocalProvider(setting, **amounts)


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise JobError(f"{name} is {seen(value)}, expected a whole number from 0 on")
    return value


def rent_from_ec2(setting: Setting) -> Provider:
    """Instances of EC2 that join the Ray cluster of this machine; to be opened before use."""
    from elastune.providers.ec2.provider import Ec2Provider  # noqa: PLC0415 - it needs Setting

    options = dict(setting.options)
    cpus, gpus = (
        _count("slot_cpus", options.pop("slot_cpus", 1)),
        _count("slot_gpus", options.pop("slot_gpus", 0)),
    )
    return Ec2Provider(replace(setting, options=options), slot_cpus=cpus, slot_gpus=gpus)


_BUILT_IN: Mapping[str, ProviderFactory] = {
    "ec2": rent_from_ec2,
    "local": stay_local,
    "simulated": simulate,
}


def known_providers() -> tuple[str, ...]:
    """All names, in alphabetical order. Nothing is imported."""
    return tuple(sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))}))


def load_provider(name: str) -> ProviderFactory:
    """The provider of this name. An installed one is imported only here."""
    installed = tuple(entry_points(group=GROUP, name=name))
    if len(installed) + (name in _BUILT_IN) > 1:
        origins = [*(["built in"] if name in _BUILT_IN else []), *(entry.value for entry in installed)]
        raise JobError(f"provider {name!r} is offered more than once ({', '.join(origins)}): remove one")
    if installed:
        return _imported(installed[0])
    if name not in _BUILT_IN:
        raise JobError(f"there is no provider {name!r}, expected one of {', '.join(known_providers())}")
    return _BUILT_IN[name]


def _imported(entry: EntryPoint) -> ProviderFactory:
    try:
        factory = entry.load()
    except (ImportError, AttributeError) as error:
        raise JobError(f"provider {entry.name!r} ({entry.value}) cannot be imported: {error}") from error
    if not callable(factory):
        raise JobError(f"provider {entry.name!r} ({entry.value}) is no function from Setting to Provider")
    return factory  # type: ignore[no-any-return]
