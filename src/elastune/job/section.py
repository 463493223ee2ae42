"""What all sections of a job share: they are frozen and refuse keys that they do not know."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from elastune.model.quantities import Needed


class Section(BaseModel):
    """A mapping in the job. Each required field's description says what is expected there."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MisfitError(ValueError):
    """Values that are fine by themselves do not go together. `path` leads to the one to look at."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(text)
        self.path = path


RENAMED = {"yields": "may_exceed"}
"""Keys of a job by the name they had in earlier versions."""


def with_current_keys(recorded: Mapping[str, object]) -> dict[str, object]:
    """The data of a job that a run recorded, perhaps in an earlier version."""
    return {RENAMED.get(key, key): value for key, value in recorded.items()}


def expected_in(section: type[Section], key: str) -> str | None:
    """What is expected where a required key is missing."""
    field = section.model_fields[key]
    needed = (each.text for each in field.metadata if isinstance(each, Needed))
    return field.description or next(needed, None)
