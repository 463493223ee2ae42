"""The runtime of real runs: gangs of warm processes on the nodes of a Ray cluster."""
