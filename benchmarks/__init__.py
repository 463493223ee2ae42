"""Measurements: what the planners are worth and what they take, always side by side in one run."""
