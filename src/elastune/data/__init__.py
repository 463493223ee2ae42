"""Data in partitions: found or made, read once by each worker that holds them, kept within its memory.

Which worker holds which partition, and who visits it when, is decided elsewhere.
"""

from elastune.data.dataset import Dataset, Partition
from elastune.data.registering import register
from elastune.data.shelf import Loaded, Shelf
from elastune.data.splitting import split

__all__ = ["Dataset", "Loaded", "Partition", "Shelf", "register", "split"]
