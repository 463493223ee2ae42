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


def _sized(options: Options) -> tuple[Options, int, int]:
    """The provider's own options, and the CPUs and GPUs of a node, which a quote adds to them."""
    sizes = {"slot_cpus": 0, "slot_gpus": 0, "slots_per_node": 1}
    given = {name: int(options.get(name, usual)) for name, usual in sizes.items()}
    own = {name: value for name, value in options.items() if name not in sizes}
    slots = given["slots_per_node"]
    return own, slots * given["slot_cpus"], slots * given["slot_gpus"]


def _open_inventory(_: InventoryScope) -> Inventory:
    from elastune.providers.slurm.inventory import SlurmInventory  # noqa: PLC0415

    return SlurmInventory()


def _quote_price(options: Options) -> Quotation:
    from elastune.providers.slurm.options import quote_price  # noqa: PLC0415

    own, _, gpus = _sized(options)
    return quote_price(own, gpus)


def _expected_queue(options: Options) -> Distribution | None:
    from elastune.providers.slurm.inventory import expected_queue  # noqa: PLC0415

    own, cpus, gpus = _sized(options)
    return expected_queue(own, cpus=cpus, gpus=gpus)


ENTRY = ProviderEntry(
    make=queue_jobs,
    inventory=_open_inventory,
    quote_price=_quote_price,
    expected_queue=_expected_queue,
    takes_slots=True,
    # By the second, as Slurm accounts for it. A node looks at its lease every second and then ends Ray.
    billing=BillingRule(minimum_charge_s=0.0, shutdown_s=15.0, least_life_s=30.0),
)
