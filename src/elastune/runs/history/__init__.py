"""A run as it went, from its journal alone: every node, gang, row and dollar over time.

`book` keeps the books, with one module for nodes, gangs and trials each; `reading` opens a run, `series` and
`comparison` are what figures need.
"""

from elastune.runs.history.book import History, history_of

__all__ = ["History", "history_of"]
