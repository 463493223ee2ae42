"""A body on a virtual clock, with modelled nodes, latencies, bills and faults."""

from elastune.bodies.simulated.body import Brain, SimulatedBody
from elastune.bodies.simulated.faults import NO_FAULTS, PRESETS, Faults, parse_faults

__all__ = ["NO_FAULTS", "PRESETS", "Brain", "Faults", "SimulatedBody", "parse_faults"]
