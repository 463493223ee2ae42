"""What a user writes, and what runs it on one rank of a gang. torch is imported only where gangs need it."""

from elastune.training.groups import Group, Rendezvous, Solo, join, open_rendezvous
from elastune.training.loading import load
from elastune.training.recipe import Recipe, open_recipe
from elastune.training.running import Row, Training
from elastune.training.seeding import trial_seed
from elastune.training.tally import Tally
from elastune.training.trainable import State, Trainable
from elastune.training.warming import warm_up
from elastune.training.worker import Worker, make_worker

__all__ = [
    "Group",
    "Recipe",
    "Rendezvous",
    "Row",
    "Solo",
    "State",
    "Tally",
    "Trainable",
    "Training",
    "Worker",
    "join",
    "load",
    "make_worker",
    "open_recipe",
    "open_rendezvous",
    "trial_seed",
    "warm_up",
]
