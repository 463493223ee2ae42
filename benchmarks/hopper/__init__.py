"""How good the schedules of model hopping are, and what they cost: `python -m benchmarks.hopper`."""
