"""Every error that Elastune raises on purpose.

    ElastuneError
    ├── JobError           the job, a profile or an option is wrong; the user can fix it   (exit code 2)
    ├── InfeasibleError    no plan keeps the limits; says what would fit                   (exit code 3)
    ├── ExecutionError     a run cannot continue (damaged or busy journal, say)            (exit code 4)
    │   └── UnreadableError    the data of the job cannot be read
    └── InvariantError     a contract between our own modules is broken: a bug of Elastune (exit code 70)

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
    """The input is valid, but the run cannot continue. The message says what was found and what to do."""

    exit_code = 4


class UnreadableError(ExecutionError):
    """Part of the data cannot be read; the trial that read it is not at fault."""


class InvariantError(ElastuneError):
    """A contract between two of our own modules is broken."""

    exit_code = 70
