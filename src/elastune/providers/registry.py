"""Providers and inventories by name: those of Elastune, and those that other packages install.

A provider of Elastune is a folder beside this file with a `registry.py` that has an `ENTRY`; nothing else has
to be changed for it. A package adds a provider as an entry point of the group `elastune.providers`, a
function from `ProviderSetting` to `Provider`, and an inventory in `elastune.inventories`, a function from
`InventoryScope` to `Inventory`. A provider's function may have the fields of a `ProviderEntry` as attributes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from elastune.errors import JobError
from elastune.model.billing import BillingRule, Options, Quotation
from elastune.model.distributions import Distribution
from elastune.providers.protocol import (
    InventoryFactory,
    Provider,
    ProviderEntry,
    ProviderFactory,
    ProviderSetting,
)
from elastune.providers.simulated import SimulatedProvider

GROUP = "elastune.providers"
INVENTORIES = "elastune.inventories"
_SIMULATED = "simulated"


def simulate(setting: ProviderSetting) -> Provider:
    """Without faults. For faults, make a `SimulatedProvider` yourself."""
    if setting.options:
        raise JobError(
            f"the simulated provider has no options, but was given {', '.join(sorted(setting.options))}"
        )
    return SimulatedProvider(
        setting.terms, seed=setting.seed, clock=setting.clock, expires_s=setting.expires_s
    )


@functools.cache
def built_in() -> tuple[str, ...]:
    """In alphabetical order. Nothing is imported."""
    folders = Path(__file__).parent.glob("*/registry.py")
    return tuple(sorted({_SIMULATED, *(path.parent.name for path in folders)}))


@functools.cache
def _built_in_entry(name: str) -> ProviderEntry:
    if name == _SIMULATED:
        return ProviderEntry(make=simulate, is_elsewhere=False)
    entry: ProviderEntry = import_module(f"{__package__}.{name}.registry").ENTRY
    return entry


def known_providers() -> tuple[str, ...]:
    """In alphabetical order. Nothing is imported."""
    return _known(built_in(), GROUP)


def load_provider(name: str) -> ProviderFactory:
    """An installed provider is imported only here; a name that is offered twice is refused."""
    found = _load(name, built_in(), GROUP, kind="provider", signature="ProviderSetting to Provider")
    return _built_in_entry(name).make if found is None else found


def known_inventories() -> tuple[str, ...]:
    """In alphabetical order. Installed ones are not imported."""
    return _known(_built_in_inventories(), INVENTORIES)


def load_inventory(name: str) -> InventoryFactory:
    """As `load_provider`."""
    ours = _built_in_inventories()
    found = _load(name, ours, INVENTORIES, kind="inventory", signature="InventoryScope to Inventory")
    inventory = _built_in_entry(name).inventory if found is None else found
    assert inventory is not None
    return inventory


def _built_in_inventories() -> tuple[str, ...]:
    return tuple(name for name in built_in() if _built_in_entry(name).inventory is not None)


def _known(ours: Iterable[str], group: str) -> tuple[str, ...]:
    return tuple(sorted({*ours, *(entry.name for entry in entry_points(group=group))}))


def _load(
    name: str, ours: tuple[str, ...], group: str, *, kind: str, signature: str
) -> Callable[..., Any] | None:
    """None: it is built in."""
    installed = tuple(entry_points(group=group, name=name))
    origins = [*(["built in"] if name in ours else []), *(entry.value for entry in installed)]
    if len(origins) > 1:
        raise JobError(f"{kind} {name!r} is offered more than once ({', '.join(origins)}): remove one")
    if not origins:
        raise JobError(f"there is no {kind} {name!r}, expected one of {', '.join(_known(ours, group))}")
    if not installed:
        return None
    try:
        factory: Callable[..., Any] = installed[0].load()
    except (ImportError, AttributeError) as error:
        raise JobError(f"{kind} {name!r} ({origins[0]}) cannot be imported: {error}") from error
    if not callable(factory):
        raise JobError(f"{kind} {name!r} ({origins[0]}) is no function from {signature}")
    return factory


def provider_entry(name: str) -> ProviderEntry:
    """Of a provider that is neither built in nor installed, the usual one."""
    if name in built_in():  # searching the installed packages takes a while
        return _built_in_entry(name)
    if not entry_points(group=GROUP, name=name):
        return ProviderEntry(make=simulate)
    function = load_provider(name)
    given = {
        each.name: getattr(function, each.name)
        for each in fields(ProviderEntry)
        if hasattr(function, each.name)
    }
    return ProviderEntry(**{**given, "make": function})


def price_lookup(provider: str) -> Callable[[Options], Quotation] | None:
    return provider_entry(provider).quote_price


def interruption_lookup(provider: str) -> Callable[[Options], float] | None:
    return provider_entry(provider).interruptions_per_hour


def queue_lookup(provider: str) -> Callable[[Options], Distribution | None] | None:
    return provider_entry(provider).expected_queue


def billing_rule(provider: str) -> BillingRule:
    return provider_entry(provider).billing


def is_elsewhere(provider: str) -> bool:
    """Whether nodes are, or may be, other machines."""
    return provider_entry(provider).is_elsewhere
