"""Model hopping, measured: `python -m benchmarks.hopper [name ...]`, or `all`.

`schedules` and `replicas` are about the order of visits, without a run. The others carry out real runs on
nodes of this machine: `throughput` and `accuracy` beside the ways that have no hops, `faults` with workers
killed, `prediction` against the quote. Their times want a machine that does nothing else.
"""
