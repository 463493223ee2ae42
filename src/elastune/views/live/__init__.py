"""A run in progress: a snapshot of its state, and the screen and lines that show it."""
