"""EC2 for the registry of providers."""

from __future__ import annotations

from dataclasses import replace

from elastune.model.billing import Options, Quotation
from elastune.providers.ec2.calls import BILLING
from elastune.providers.protocol import (
    Inventory,
    InventoryScope,
    Provider,
    ProviderEntry,
    ProviderSetting,
    split_slot,
)


def rent_from_ec2(setting: ProviderSetting) -> Provider:
    """Instances of EC2 that join the Ray cluster of this machine; to be opened before use."""
    from elastune.providers.ec2.provider import Ec2Provider  # noqa: PLC0415

    options, cpus, gpus = split_slot(setting)
    return Ec2Provider(replace(setting, options=options), slot_cpus=cpus, slot_gpus=gpus)


def _open_inventory(scope: InventoryScope) -> Inventory:
    from elastune.providers.ec2.inventory import open_inventory  # noqa: PLC0415

    return open_inventory(scope.region)


def _quote_price(options: Options) -> Quotation:
    from elastune.providers.ec2.prices import quote_price  # noqa: PLC0415

    return quote_price(options)


def _interruptions_per_hour(options: Options) -> float:
    from elastune.providers.ec2.prices import interruptions_per_hour  # noqa: PLC0415

    return interruptions_per_hour(options)


ENTRY = ProviderEntry(
    make=rent_from_ec2,
    inventory=_open_inventory,
    quote_price=_quote_price,
    interruptions_per_hour=_interruptions_per_hour,
    billing=BILLING,
)
