"""Providers and inventories by name: those of Elastune, and those that other packages install.

A package adds a provider as an entry point of the group `elastune.providers`, a function from
`ProviderSetting` to `Provider`, and an inventory in `elastune.inventories`, a function from `InventoryScope`
to `Inventory`. A provider's function may have two attributes, which take the job's `cluster.options`, check
them and raise `JobError`: `quote_price(options)`, which returns a `Quotation`, and
`interruptions_per_hour(options)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from elastune.errors import JobError
from elastune.model.billing import Options, Quotation
from elastune.providers.protocol import Inventory, InventoryScope, Provider, ProviderFactory, ProviderSetting
from elastune.providers.simulated import SimulatedProvider
from elastune.wording import seen

GROUP = "elastune.providers"
INVENTORIES = "elastune.inventories"

InventoryFactory = Callable[[InventoryScope], Inventory]
F = TypeVar("F", bound=Callable[..., Any])


def simulate(setting: ProviderSetting) -> Provider:
    """Without faults. For faults, make a `SimulatedProvider` yourself."""
    if setting.options:
        raise JobError(
            f"the simulated provider has no options, but was given {', '.join(sorted(setting.options))}"
        )
    return SimulatedProvider(
        setting.terms, seed=setting.seed, clock=setting.clock, expires_s=setting.expires_s
    )


def stay_local(setting: ProviderSetting) -> Provider:
    """Ray nodes on this machine; options: the CPUs and GPUs of a slot. To be opened before use."""
    from elastune.providers.local.provider import LocalProvider  # noqa: PLC0415 - it needs Setting

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


def rent_from_ec2(setting: ProviderSetting) -> Provider:
    """Instances of EC2 that join the Ray cluster of this machine; to be opened before use."""
    from elastune.providers.ec2.provider import Ec2Provider  # noqa: PLC0415 - it needs Setting

    options = dict(setting.options)
    cpus = _count("slot_cpus", options.pop("slot_cpus", 1))
    gpus = _count("slot_gpus", options.pop("slot_gpus", 0))
    return Ec2Provider(replace(setting, options=options), slot_cpus=cpus, slot_gpus=gpus)


def _local_inventory(_: InventoryScope) -> Inventory:
    from elastune.providers.local.processes import LocalInventory  # noqa: PLC0415

    return LocalInventory()


def _ec2_inventory(scope: InventoryScope) -> Inventory:
    from elastune.providers.ec2.inventory import open_inventory  # noqa: PLC0415

    return open_inventory(scope.region)


_BUILT_IN: Mapping[str, ProviderFactory] = {"ec2": rent_from_ec2, "local": stay_local, "simulated": simulate}
_INVENTORIES: Mapping[str, InventoryFactory] = {"ec2": _ec2_inventory, "local": _local_inventory}


def known_providers() -> tuple[str, ...]:
    """In alphabetical order. Nothing is imported."""
    return _known(_BUILT_IN, GROUP)


def load_provider(name: str) -> ProviderFactory:
    """An installed provider is imported only here; a name that is offered twice is refused."""
    return _load(name, _BUILT_IN, GROUP, kind="provider", signature="ProviderSetting to Provider")


def known_inventories() -> tuple[str, ...]:
    """In alphabetical order. Nothing is imported."""
    return _known(_INVENTORIES, INVENTORIES)


def load_inventory(name: str) -> InventoryFactory:
    """As `load_provider`."""
    return _load(name, _INVENTORIES, INVENTORIES, kind="inventory", signature="InventoryScope to Inventory")


def _known(built_in: Iterable[str], group: str) -> tuple[str, ...]:
    return tuple(sorted({*built_in, *(entry.name for entry in entry_points(group=group))}))


def _load(name: str, built_in: Mapping[str, F], group: str, *, kind: str, signature: str) -> F:
    installed = tuple(entry_points(group=group, name=name))
    origins = [*(["built in"] if name in built_in else []), *(entry.value for entry in installed)]
    if len(origins) > 1:
        raise JobError(f"{kind} {name!r} is offered more than once ({', '.join(origins)}): remove one")
    if not origins:
        raise JobError(f"there is no {kind} {name!r}, expected one of {', '.join(_known(built_in, group))}")
    if not installed:
        return built_in[name]
    try:
        factory: F = installed[0].load()
    except (ImportError, AttributeError) as error:
        raise JobError(f"{kind} {name!r} ({origins[0]}) cannot be imported: {error}") from error
    if not callable(factory):
        raise JobError(f"{kind} {name!r} ({origins[0]}) is no function from {signature}")
    return factory


# The module that has both functions; imported when they are asked for.
_PRICE_MODULES = {"ec2": "elastune.providers.ec2.prices"}
# These have neither. Searching the installed packages takes a while and is skipped for them.
_WITHOUT_PRICES = ("local", "simulated")


def price_lookup(provider: str) -> Callable[[Options], Quotation] | None:
    """None: this provider knows no prices, and the job has to give the price of a node."""
    return _companion(provider, "quote_price")


def interruption_lookup(provider: str) -> Callable[[Options], float] | None:
    """Returns how often a node is expected to be taken away per hour; None: this provider takes none away."""
    return _companion(provider, "interruptions_per_hour")


def _companion(provider: str, name: str) -> Callable[[Options], Any] | None:
    if provider in _PRICE_MODULES:
        return getattr(import_module(_PRICE_MODULES[provider]), name)  # type: ignore[no-any-return]
    if provider in _WITHOUT_PRICES or not entry_points(group=GROUP, name=provider):
        return None
    return getattr(load_provider(provider), name, None)
