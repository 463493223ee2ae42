"""The Python API: `elastune.plan`, `elastune.tune` and the other functions, which the command line calls."""
