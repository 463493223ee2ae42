"""A run as it went, from its journal alone: every node, gang, row and dollar over time.

`recorder` follows the events, with one module for nodes, gangs and trials each; `book` is what it found, of a
journal that was read to its end. `reading` opens a run, `series` and `comparison` are what figures need.
"""

from elastune.runs.history.book import History, history_of

__all__ = ["History", "history_of"]
