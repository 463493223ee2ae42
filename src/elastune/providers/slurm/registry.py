"""Slurm for the registry of providers."""

from __future__ import annotations

import os
from dataclasses import replace

from elastune.model.billing import BillingRule, Options, Quotation
from elastune.model.distributions import Distribution
from elastune.providers.protocol import (
    Inventory,
    InventoryScope,
    Provider,
    ProviderEntry,
    ProviderSetting,
    split_slot,
)


def queue_jobs(setting: ProviderSetting) -> Provider:
    """Jobs of Slurm, or the machines of the allocation in which this process runs; to be opened before
    use."""
    options, cpus, gpus = split_slot(setting)
    setting = replace(setting, options=options)
    if os.environ.get("SLURM_JOB_ID"):
        from elastune.providers.slurm.allocation import AllocationProvider  # noqa: PLC0415

        return AllocationProvider(setting, slot_cpus=cpus, slot_gpus=gpus)
    from elastune.providers.slurm.provider import SlurmProvider  # noqa: PLC0415

    return SlurmProvider(setting, slot_cpus=cpus, slot_gpus=gpus)


def _open_inventory(_: InventoryScope) -> Inventory:
    from elastune.providers.slurm.inventory import SlurmInventory  # noqa: PLC0415

    return SlurmInventory()


def _quote_price(options: Options) -> Quotation:
    from elastune.providers.slurm.options import quote_price  # noqa: PLC0415

    return quote_price(options)


def _expected_queue(options: Options) -> Distribution | None:
    from elastune.providers.slurm.inventory import expected_queue  # noqa: PLC0415

    return expected_queue(options)


ENTRY = ProviderEntry(
    make=queue_jobs,
    inventory=_open_inventory,
    quote_price=_quote_price,
    expected_queue=_expected_queue,
    # By the second, as Slurm accounts for it. A node looks at its lease every second and then ends Ray.
    billing=BillingRule(minimum_charge_s=0.0, shutdown_s=15.0, least_life_s=30.0),
)
