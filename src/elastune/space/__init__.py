"""Which configurations there are, and in which order they are tried."""

from elastune.space.grid_sampler import GridSampler
from elastune.space.parsing import parse_space
from elastune.space.random_sampler import RandomSampler
from elastune.space.sampler import Configuration, Sampler
from elastune.space.space import Distribution, Domain, Scalar, Space, SpaceError
from elastune.space.table_sampler import TableSampler

__all__ = [
    "Configuration",
    "Distribution",
    "Domain",
    "GridSampler",
    "RandomSampler",
    "Sampler",
    "Scalar",
    "Space",
    "SpaceError",
    "TableSampler",
    "parse_space",
]
