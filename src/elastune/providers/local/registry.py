"""This machine for the registry of providers."""

from __future__ import annotations

from elastune.errors import JobError
from elastune.providers.protocol import (
    Inventory,
    InventoryScope,
    Provider,
    ProviderEntry,
    ProviderSetting,
    split_slot,
)


def stay_local(setting: ProviderSetting) -> Provider:
    """Ray nodes on this machine; options: the CPUs and GPUs of a slot. To be opened before use."""
    from elastune.providers.local.provider import LocalProvider  # noqa: PLC0415

    unknown, cpus, gpus = split_slot(setting)
    if unknown:
        raise JobError(
            f"the local provider has the options slot_cpus and slot_gpus, but was given "
            f"{', '.join(sorted(unknown))}"
        )
    return LocalProvider(setting, slot_cpus=cpus, slot_gpus=gpus)


def _open_inventory(_: InventoryScope) -> Inventory:
    from elastune.providers.local.processes import LocalInventory  # noqa: PLC0415

    return LocalInventory()


ENTRY = ProviderEntry(make=stay_local, inventory=_open_inventory, is_elsewhere=False)
