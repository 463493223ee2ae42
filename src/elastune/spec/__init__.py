"""What is to be done: searches declared as stages of trials and iterations; what is better, what enough."""

from elastune.spec.hopping import Hopping
from elastune.spec.hyperband import hyperband
from elastune.spec.mode import Mode
from elastune.spec.stage import Spec, Stage
from elastune.spec.successive_halving import successive_halving
from elastune.spec.target import Comparison, Target

__all__ = ["Comparison", "Hopping", "Mode", "Spec", "Stage", "Target", "hyperband", "successive_halving"]
