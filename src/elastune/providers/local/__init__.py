"""Nodes that are Ray nodes on this machine and come and go exactly as asked.

The provider lives in the driver and knows who has what; a keeper process of its own owns Ray's head and all
nodes, and ends them when the driver does. Ray is imported by `LocalProvider.open` and by the keeper alone.
"""

from elastune.providers.local.provider import LocalProvider

__all__ = ["LocalProvider"]
