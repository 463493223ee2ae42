"""Machines by SSH for the registry of providers."""

from __future__ import annotations

from dataclasses import replace

from elastune.model.billing import BillingRule, Options, Quotation
from elastune.providers.protocol import (
    Inventory,
    InventoryScope,
    Provider,
    ProviderEntry,
    ProviderSetting,
    split_slot,
)


def use_machines(setting: ProviderSetting) -> Provider:
    """Machines that are reached by SSH; to be opened before use."""
    from elastune.providers.ssh.provider import SshProvider  # noqa: PLC0415

    options, cpus, gpus = split_slot(setting)
    return SshProvider(replace(setting, options=options), slot_cpus=cpus, slot_gpus=gpus)


def _quote_price(options: Options) -> Quotation:
    from elastune.providers.ssh.options import quote_price  # noqa: PLC0415

    return quote_price(options)


def _open_inventory(_: InventoryScope) -> Inventory:
    from elastune.providers.ssh.inventory import SshInventory  # noqa: PLC0415

    return SshInventory()


ENTRY = ProviderEntry(
    make=use_machines,
    inventory=_open_inventory,
    quote_price=_quote_price,
    billing=BillingRule(minimum_charge_s=0.0, shutdown_s=15.0),
)
