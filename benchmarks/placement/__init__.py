"""What placement takes and how many gangs it moves: `python -m benchmarks.placement [name ...]`."""
