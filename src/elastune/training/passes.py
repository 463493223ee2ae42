"""A loop over batches while it is at one of them: the batch size that `worker.backward` needs to know."""

from __future__ import annotations

from typing import Any, Literal, Self

from elastune.errors import JobError
from elastune.training.batches import Share


class Pass:
    """One step of a loop. `among` are all that are open, the innermost last."""

    def __init__(self, among: list[Pass], share: Share) -> None:
        self.share = share
        self.samples = 0
        self.went_backward = False
        self._among = among

    def __enter__(self) -> Self:
        self._among.append(self)
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self._among.remove(self)
        return False

    def offer(self, samples: Any, count: int) -> Any:
        self.samples = count
        self.went_backward = False
        return samples

    def check(self) -> None:
        if not self.went_backward:
            raise passed_over()


def passed_over() -> JobError:
    """The mistake of treating a batch of micro-batches as if it were samples."""
    return JobError(
        "a micro-batch of worker.batches(..., micro=...) was passed over without worker.backward; expected "
        "`for batch in worker.batches(data, 64, micro=16): optimizer.zero_grad(); "
        "for x, y in batch: worker.backward(...); optimizer.step()`"
    )
