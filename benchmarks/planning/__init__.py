"""How good plans are and how long planning takes: `python -m benchmarks.planning [name ...]`."""
