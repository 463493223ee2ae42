"""What a command or a call takes before its run begins. The deadline counts it: it begins with the command.

The planner gets the time that is left, without the start of the cluster, which is still to come and is
estimated. How long that really took is known when the run begins, and the run's deadline is exact.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import elastune
from elastune.checks.checking import is_here
from elastune.errors import InfeasibleError
from elastune.job.job import Job
from elastune.planning.infeasible import NoPlanError
from elastune.runs.real import StartedUp
from elastune.wording import format_duration

# Starting Ray on this machine took 2.3 to 4.4 s on 2 cores; connecting to a cluster, less than one.
_OPENING_S = 4.0
_CONNECTING_S = 1.0
_MOST_SHARE = 0.1


class StartUp:
    """Time since a command was given, without that in which it waited for an answer."""

    def __init__(self, age_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """`age_s`: how long ago it was given."""
        self._clock = clock
        self._began = clock() - age_s
        self._deadline_s: float | None = None
        self._deducted_s = 0.0

    @classmethod
    def of_process(cls) -> StartUp:
        """For a command that has a process of its own. Not by the kernel's record of its start: a shell that
        has waited may have become this process."""
        return cls(time.monotonic() - elastune.LOADED)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While the user is asked."""
        asked = self._clock()
        try:
            yield
        finally:
            self._began += self._clock() - asked

    def left_of(self, job: Job) -> Job:
        """The job with what is left of its deadline now, for what is measured before the plan."""
        deadline_s = job.deadline
        return job if deadline_s is None else job.with_deadline(_left_s(deadline_s, self.elapsed_s))

    def deduct(
        self,
        planned: Job,
        deadline_s: float | None,
        say: Callable[[str], object],
        *,
        address: str | None = None,
    ) -> Job:
        """The job with the time that will be left of its deadline, `deadline_s`, when the run begins."""
        self._deadline_s = deadline_s
        if deadline_s is None:
            return planned
        opening_s = _OPENING_S if is_here(planned, address) else _CONNECTING_S
        opening_s = min(opening_s, _MOST_SHARE * deadline_s)
        elapsed_s = self.elapsed_s
        self._deducted_s = elapsed_s + opening_s
        left_s = _left_s(deadline_s, self._deducted_s)
        say(
            f"start-up has taken {format_duration(elapsed_s)} so far: the plan is for "
            f"{format_duration(left_s)} of the deadline of {format_duration(deadline_s)}, which counts from "
            "the command"
        )
        return planned.with_deadline(left_s)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """If no plan keeps the deadline, the message says how much of it start-up takes."""
        try:
            yield
        except NoPlanError as error:
            if self._deadline_s is None:
                raise
            taken, whole = format_duration(self._deducted_s), format_duration(self._deadline_s)
            text = f"Of the deadline of {whole} start-up takes {taken}; add it to one that would fit."
            raise NoPlanError(f"{error}\n{text}", error.diagnosis) from None

    def end(self, *, keeps_deadline: bool) -> StartedUp:
        """The run begins now."""
        elapsed_s, deadline_s = self.elapsed_s, self._deadline_s
        if deadline_s is None or not keeps_deadline:
            return StartedUp(startup_s=elapsed_s)
        return StartedUp(startup_s=elapsed_s, deadline_s=_left_s(deadline_s, elapsed_s))


def _left_s(deadline_s: float, elapsed_s: float) -> float:
    """Raises if nothing is left."""
    if elapsed_s >= deadline_s:
        raise InfeasibleError(
            f"start-up takes {format_duration(elapsed_s)}, and the deadline of {format_duration(deadline_s)} "
            "counts from the command; give a later deadline"
        )
    return deadline_s - elapsed_s
