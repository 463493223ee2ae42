"""The policies side by side: HyperSched's ablations on its function, all of them on recorded curves.

`python -m benchmarks.policies` runs everything, `python -m benchmarks.policies speculative --seeds 5` one
experiment on five seeds. `docs/policies.md` sets the results beside the papers'.
"""
