"""Who rents machines to a run: one narrow protocol, its simulated implementation, and what surveys tell."""

from elastune.providers.facts import Fact, Granted, Lost, Noticed, Orphaned, Ready, Refused
from elastune.providers.faults import NodeFaults
from elastune.providers.protocol import Fate, Machine, MachineState, Price, Provider, Survey
from elastune.providers.registry import ProviderFactory, Setting, known_providers, load_provider
from elastune.providers.simulated import SimulatedProvider
from elastune.providers.watcher import Belief, Watcher

__all__ = [
    "Belief",
    "Fact",
    "Fate",
    "Granted",
    "Lost",
    "Machine",
    "MachineState",
    "NodeFaults",
    "Noticed",
    "Orphaned",
    "Price",
    "Provider",
    "ProviderFactory",
    "Ready",
    "Refused",
    "Setting",
    "SimulatedProvider",
    "Survey",
    "Watcher",
    "known_providers",
    "load_provider",
]
