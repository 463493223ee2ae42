"""Which configurations there are, and in which order they are tried."""

from elastune.space.function_space import FunctionSpace, SuggestingTrial
from elastune.space.grid_sampler import GridSampler
from elastune.space.model_sampler import ModelSampler
from elastune.space.parsing import parse_scalar, parse_space
from elastune.space.perturbing import perturbed
from elastune.space.qmc_sampler import QmcSampler
from elastune.space.random_sampler import RandomSampler
from elastune.space.sampler import AnySpace, Configuration, Sampler
from elastune.space.space import Condition, Distribution, Domain, Scalar, Space, SpaceError
from elastune.space.starting import StartError, StartingSampler, check_starts
from elastune.space.table_sampler import TableSampler

__all__ = [
    "AnySpace",
    "Condition",
    "Configuration",
    "Distribution",
    "Domain",
    "FunctionSpace",
    "GridSampler",
    "ModelSampler",
    "QmcSampler",
    "RandomSampler",
    "Sampler",
    "Scalar",
    "Space",
    "SpaceError",
    "StartError",
    "StartingSampler",
    "SuggestingTrial",
    "TableSampler",
    "check_starts",
    "parse_scalar",
    "parse_space",
    "perturbed",
]
