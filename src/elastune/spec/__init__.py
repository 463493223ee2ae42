"""What is to be done: searches declared as stages of trials and iterations, and what counts as better."""

from elastune.spec.hyperband import hyperband
from elastune.spec.mode import Mode
from elastune.spec.stage import Spec, Stage
from elastune.spec.successive_halving import successive_halving

__all__ = ["Mode", "Spec", "Stage", "hyperband", "successive_halving"]
