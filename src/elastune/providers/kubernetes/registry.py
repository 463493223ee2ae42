"""Kubernetes for the registry of providers."""

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


def use_pods(setting: ProviderSetting) -> Provider:
    """Worker pods of a RayCluster; to be opened before use."""
    from elastune.providers.kubernetes.provider import KubernetesProvider  # noqa: PLC0415

    options, cpus, gpus = split_slot(setting)
    return KubernetesProvider(replace(setting, options=options), slot_cpus=cpus, slot_gpus=gpus)


def _open_inventory(_: InventoryScope) -> Inventory:
    from elastune.providers.kubernetes.inventory import KubernetesInventory  # noqa: PLC0415

    return KubernetesInventory()


def _quote_price(options: Options) -> Quotation:
    from elastune.providers.kubernetes.options import quote_price  # noqa: PLC0415

    return quote_price(options)


ENTRY = ProviderEntry(
    make=use_pods,
    inventory=_open_inventory,
    quote_price=_quote_price,
    # A pod has 30 s to end. How long its machine stays is up to the cluster.
    billing=BillingRule(minimum_charge_s=0.0, shutdown_s=30.0),
)
