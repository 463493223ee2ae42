"""What all sections of a job share: they are frozen and refuse keys that they do not know."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict

from elastune.job.quantities import ExpectedError
from elastune.wording import did_you_mean, either


class Section(BaseModel):
    """A mapping in the job. Each required field's description says what is expected there."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MisfitError(ValueError):
    """Values that are fine by themselves do not go together. `path` leads to the one to look at."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(text)
        self.path = path


def one_of(*allowed: str) -> Callable[[object], str]:
    """A parser for one of a few words."""

    def parse(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise ExpectedError(f"{either(allowed)}{did_you_mean(value, allowed)}")

    return parse
