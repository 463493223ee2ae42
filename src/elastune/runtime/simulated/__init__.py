"""A runtime on a virtual clock, with modelled nodes, latencies, bills and faults."""
