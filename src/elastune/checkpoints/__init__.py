"""The state of a trial as bytes that are safe to read, and where they are kept."""

from elastune.checkpoints.decoding import decode
from elastune.checkpoints.encoding import encode
from elastune.checkpoints.store import Store, load_checkpoint

__all__ = ["Store", "decode", "encode", "load_checkpoint"]
