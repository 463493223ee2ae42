"""Partitioned data: found or split, read once by each worker that holds them, within its memory limit."""

from elastune.data.partition_cache import PartitionCache
from elastune.data.registering import register
from elastune.data.splitting import split, split_files

__all__ = ["PartitionCache", "register", "split", "split_files"]
