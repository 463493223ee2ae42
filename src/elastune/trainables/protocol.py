"""What a simulated run needs to know of a training: how configurations learn, and how long that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from elastune.profiles import Profile
from elastune.space import Configuration, Space
from elastune.spec import Mode

Row = Mapping[str, float]


class Curve(Protocol):
    """How one configuration learns. Iterations are counted from 1; both ends of a range are included."""

    @property
    def length(self) -> int | None:
        """The iterations after which training is finished by itself; None: endless, or not known yet."""
        ...

    def rows(self, first: int, last: int) -> Sequence[Row]:
        """The metrics of these iterations, fewer where the curve ends before.

        Asking again gives the same rows, since a trial may lose work and repeat it. NaN is a training that
        diverged. An exception is the user's code that crashed; asking for one iteration after the other then
        tells where.
        """
        ...

    def seconds(self, first: int, last: int) -> Sequence[float] | None:
        """The measured seconds of these iterations on one slot; None: the profile tells."""
        ...


class Trainable(Protocol):
    """All configurations together. What it says of itself holds where the job says nothing else."""

    @property
    def metric(self) -> str:
        """The metric that every row has."""
        ...

    @property
    def mode(self) -> Mode | None: ...

    @property
    def space(self) -> Space | None: ...

    @property
    def table(self) -> Sequence[Configuration] | None:
        """All configurations that there are; None: any can be trained."""
        ...

    @property
    def longest(self) -> int | None:
        """The most iterations that make sense to train; None: nobody knows."""
        ...

    def curve(self, config: Configuration, seed: tuple[int, int]) -> Curve:
        """`seed` is the seed of the run and the number of the trial, for curves that are random."""
        ...

    def profile(self) -> Profile | None:
        """What the recorded times tell about the speed; None: nothing is known."""
        ...
