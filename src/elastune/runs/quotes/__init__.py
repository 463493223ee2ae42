"""Quotes that need simulated runs: of policies without a plan, of spot nodes, of runs that plan again."""
