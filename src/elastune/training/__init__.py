"""What users write, and what runs it on one worker of a gang. torch is imported only by gangs."""

from elastune.training.groups import Solo
from elastune.training.recipe import load, open_recipe
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker, make_worker

__all__ = ["Solo", "Trainable", "Worker", "load", "make_worker", "open_recipe"]
