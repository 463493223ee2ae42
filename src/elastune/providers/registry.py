"""The providers by name: those that come with Elastune, and those that other packages install.

A package offers one as an entry point of the group `elastune.providers`: a function from `Setting` to
`Provider`.

What providers say about money: a price and its source, how time is billed, how often a node is taken.

A provider may have two functions for this, beside the one that makes it: `quote_price(options)`, which gives
a `Quotation`, and `interruptions_per_hour(options)`. Both take the job's `cluster.options`, check them and
raise `JobError`. Of an installed provider they are attributes of the object that its entry point names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from elastune.errors import JobError
from elastune.model.billing import Options, Quotation
from elastune.providers.protocol import Inventory, InventoryScope, Provider, ProviderFactory, ProviderSetting
from elastune.providers.simulated import SimulatedProvider
from elastune.wording import seen

GROUP = "elastune.providers"


def simulate(setting: ProviderSetting) -> Provider:
    """A kind virtual cloud. For faults, make a `SimulatedProvider` yourself."""
    if setting.options:
        raise JobError(
            f"the simulated provider has no options, but was given {', '.join(sorted(setting.options))}"
        )
    return SimulatedProvider(
        setting.terms, seed=setting.seed, clock=setting.clock, expires_s=setting.expires_s
    )


def stay_local(setting: ProviderSetting) -> Provider:
    """Ray nodes on this machine. What one slot is, is an option; to be opened before use."""
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


# The module that has both functions; imported when they are asked for.
_PRICE_MODULES = {"ec2": "elastune.providers.ec2.prices"}
# Known to have neither; so the installed packages need not be looked through, which takes a while.
_SILENT = ("local", "simulated")


def price_teller(provider: str) -> Callable[[Options], Quotation] | None:
    """None: this provider knows no prices, and the job has to say what a node costs."""
    return _companion(provider, "quote_price")


def interruption_teller(provider: str) -> Callable[[Options], float] | None:
    """Tells how often a node is expected to be taken away per hour; None: nobody knows of any such thing."""
    return _companion(provider, "interruptions_per_hour")


def _companion(provider: str, name: str) -> Callable[[Options], Any] | None:
    if provider in _PRICE_MODULES:
        return getattr(import_module(_PRICE_MODULES[provider]), name)  # type: ignore[no-any-return]
    if provider in _SILENT or not entry_points(group=GROUP, name=provider):
        return None
    return getattr(load_provider(provider), name, None)


INVENTORIES = "elastune.estates"


InventoryFactory = Callable[[InventoryScope], Inventory]


def _local(_: InventoryScope) -> Inventory:
    from elastune.providers.local.processes import LocalInventory  # noqa: PLC0415

    return LocalInventory()


def _ec2(outlook: InventoryScope) -> Inventory:
    from elastune.providers.ec2.inventory import open_inventory  # noqa: PLC0415

    return open_inventory(outlook.region)


_INVENTORIES: Mapping[str, InventoryFactory] = {"ec2": _ec2, "local": _local}


def known_inventories() -> tuple[str, ...]:
    """All names, in alphabetical order. Nothing is imported."""
    return tuple(sorted({*_INVENTORIES, *(entry.name for entry in entry_points(group=INVENTORIES))}))


def load_inventory(name: str) -> InventoryFactory:
    """An installed one is imported only here; a name that is offered twice is refused."""
    installed = tuple(entry_points(group=INVENTORIES, name=name))
    if len(installed) + (name in _INVENTORIES) > 1:
        raise JobError(f"the nodes of {name!r} are offered more than once: remove one of the packages")
    if installed:
        return _imported_inventory(installed[0])
    if name not in _INVENTORIES:
        raise JobError(
            f"nobody knows how to list the nodes of {name!r}, expected {', '.join(known_inventories())}"
        )
    return _INVENTORIES[name]


def _imported_inventory(entry: EntryPoint) -> InventoryFactory:
    try:
        factory = entry.load()
    except (ImportError, AttributeError) as error:
        raise JobError(f"the estate {entry.name!r} ({entry.value}) cannot be imported: {error}") from error
    if not callable(factory):
        raise JobError(f"the estate {entry.name!r} ({entry.value}) is no function from Outlook to Estate")
    return factory  # type: ignore[no-any-return]
