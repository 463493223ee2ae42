"""Checkpoints: the state of a trial as bytes that are safe to read, and where they are stored."""

from elastune.checkpoints.encoding import decode, encode
from elastune.checkpoints.store import load_checkpoint

__all__ = ["decode", "encode", "load_checkpoint"]
