"""Figures of plans and runs, drawn with matplotlib."""
