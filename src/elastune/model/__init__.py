"""The values that all packages share: ids, limits, machines, billing, profiles, distributions, stages."""
