"""Who rents machines to a run: one narrow protocol and its simulated implementation.

What surveys mean to a run is in `elastune.providers.watcher`, which needs the core; providers do not.
"""

from elastune.providers.faults import NodeFaults
from elastune.providers.protocol import Fate, Machine, MachineState, Price, Provider, Survey
from elastune.providers.registry import ProviderFactory, Setting, known_providers, load_provider
from elastune.providers.simulated import SimulatedProvider

__all__ = [
    "Fate",
    "Machine",
    "MachineState",
    "NodeFaults",
    "Price",
    "Provider",
    "ProviderFactory",
    "Setting",
    "SimulatedProvider",
    "Survey",
    "known_providers",
    "load_provider",
]
