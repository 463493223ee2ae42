"""A run while it goes on, as people look at it: what stands, what happened and why, what comes next.

A `Scene` is plain data, made of the core's state and of what was planned. How it is drawn is left to others:
a panel at a terminal, lines in a log.
"""

from __future__ import annotations

from elastune.runs.live.line_log import LineLog
from elastune.runs.live.scene import Scene
from elastune.runs.live.spectator import Opening, Spectator, View, Watches, introduce

__all__ = ["LineLog", "Opening", "Scene", "Spectator", "View", "Watches", "introduce"]
