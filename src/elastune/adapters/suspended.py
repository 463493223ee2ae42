"""A function of the user that reports while it runs, trained step by step.

The function has a thread of its own, which is suspended in each report until the next step. So exactly one
thread runs at a time. `RandomState` moves the random numbers of the libraries: the runtime seeds them anew
for each iteration, which other frameworks do not, and their scripts expect the numbers that follow.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np

from elastune.errors import InvariantError, JobError

T = TypeVar("T")
# How long a function may take to clean up after its end.
_GRACE_S = 60.0


class TrainingEndedError(BaseException):
    """Raised in a report when the training is over. No `Exception`, so that scripts do not catch it."""


class SuspendedCall(Generic[T]):
    """One call of the function. `report` is for the function, the other methods are for its trial."""

    def __init__(
        self, function: Callable[[], object], *, name: str, end: type[BaseException] = TrainingEndedError
    ) -> None:
        self.returned: object = None
        self._function = function
        self._name = name
        self._end = end  # raised in the report in which the call is closed
        self._thread = threading.Thread(target=self._run, name=f"training {name}", daemon=True)
        self._may_go, self._has_come = threading.Semaphore(0), threading.Semaphore(0)
        self._reported: T | None = None
        self._error: BaseException | None = None
        self._is_over = self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether the function has returned or failed."""
        return self._is_over

    def advance(self) -> T | None:
        """Run the function to its next report; None: it has returned. Raises its errors."""
        if self._is_over or self._is_closed:
            return None
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._may_go.release()
        self._has_come.acquire()
        if self._error is not None:
            raise self._error
        return None if self._is_over else self._reported

    def report(self, value: T) -> None:
        """Returns when the next step begins; raises if there is none."""
        if threading.current_thread() is not self._thread:
            raise JobError(
                f"{self._name} reports from another thread than its own; expected reports from the thread in "
                "which it was called"
            )
        if not self._is_closed:
            self._reported = value
            self._has_come.release()
            self._may_go.acquire()
        if self._is_closed:
            raise self._end

    def close(self) -> None:
        """End the function at its report; its `with` and `finally` blocks run."""
        if self._is_closed or self._thread.ident is None:
            self._is_closed = True
            return
        self._is_closed = True
        self._may_go.release()
        self._thread.join(_GRACE_S)
        if self._thread.is_alive():
            raise JobError(
                f"{self._name} goes on after its end; expected that it does not catch "
                f"{self._end.__name__}, which ends it in its report"
            )

    def _run(self) -> None:
        try:
            self.returned = self._function()
        except BaseException as error:  # noqa: BLE001  raised again in `advance`
            if not self._is_closed:
                self._error = error
        self._is_over = True
        self._has_come.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomState:
    """The states of `random`, numpy and torch, as plain data."""

    python: tuple[int, Any, float | None]
    numpy: tuple[Any, ...]
    torch: Any = None
    cuda: Any = None

    @classmethod
    def now(cls) -> Self:
        version, words, gauss = random.getstate()
        torch = sys.modules.get("torch")
        has_gpus = torch is not None and torch.cuda.is_available()
        return cls(
            python=(version, np.array(words, np.uint32), gauss),
            numpy=tuple(np.random.get_state()),  # noqa: NPY002  users call the old functions
            torch=None if torch is None else torch.get_rng_state(),
            cuda=torch.cuda.get_rng_state_all() if torch is not None and has_gpus else None,
        )

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        if set(plain) != {"python", "numpy", "torch", "cuda"}:
            raise InvariantError(f"a saved random state has {sorted(plain)}")
        return cls(**plain)

    def to_plain(self) -> dict[str, Any]:
        return {"python": self.python, "numpy": self.numpy, "torch": self.torch, "cuda": self.cuda}

    def restore(self) -> None:
        """Of libraries that are imported now."""
        version, words, gauss = self.python
        random.setstate((version, tuple(int(word) for word in words), gauss))
        np.random.set_state(self.numpy)  # noqa: NPY002
        torch = sys.modules.get("torch")
        if torch is not None and self.torch is not None:
            torch.set_rng_state(self.torch)
            if self.cuda is not None and torch.cuda.is_available():
                torch.cuda.set_rng_state_all(self.cuda)
