"""What is to be done: searches declared as stages of trials and iterations."""

from elastune.spec.hyperband import hyperband
from elastune.spec.stage import Spec, Stage
from elastune.spec.successive_halving import successive_halving

__all__ = ["Spec", "Stage", "hyperband", "successive_halving"]
