"""Every error that Elastune raises on purpose.

    ElastuneError
    ├── JobError           the job, a profile or an option is wrong; the user can fix it   (exit code 2)
    ├── InfeasibleError    no plan keeps the limits; says what would fit                   (exit code 3)
    ├── ExecutionError     a run or its records cannot go on (a damaged or busy journal)   (exit code 4)
    │   └── UnreadableError    the data of the job cannot be read
    └── InvariantError     a promise between our own modules is broken; it is our bug      (exit code 70)

Expected outcomes (a pruned trial, a lost spot node) are values, never exceptions.
"""

from __future__ import annotations

from typing import ClassVar


class ElastuneError(Exception):
    """Base of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1


class JobError(ElastuneError):
    """The input is wrong. The message names where, what was seen and what is allowed."""

    exit_code = 2


class InfeasibleError(ElastuneError):
    """No plan keeps the limits of the job."""

    exit_code = 3


class ExecutionError(ElastuneError):
    """The input is right, yet the run cannot go on. The message says what was found and what to do."""

    exit_code = 4


class UnreadableError(ExecutionError):
    """A part of the data cannot be read: not the fault of the trial that came to read it."""


class InvariantError(ElastuneError):
    """A promise between two of our own modules does not hold."""

    exit_code = 70
