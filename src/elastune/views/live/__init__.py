"""A run while it goes on: a snapshot of its state, and the screen that shows it."""
