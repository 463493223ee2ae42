"""The planners: the exact one, and those of the RubberBand paper."""
