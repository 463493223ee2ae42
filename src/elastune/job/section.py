"""What the sections of a job share: frozen values, no unknown keys, checks of paths and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from elastune.model.quantities import Needed

RENAMED = {"yields": "may_exceed"}
"""Keys of a job by the name they had in earlier versions."""
ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_LOGIN = re.compile(r"[^/@]*:[^/@]*@")
_MOST_CHARACTERS = 1000


class Section(BaseModel):
    """A mapping in the job. The description of each required field says what is expected there."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MisfitError(ValueError):
    """Values do not go together; `path` leads to the one to look at."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        super().__init__(text)
        self.path = path


class SeveralMisfitsError(ValueError):
    """Several values are wrong, each for a reason of its own."""

    def __init__(self, found: Iterable[MisfitError]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(map(str, self.found)))


def with_current_keys(recorded: Mapping[str, object]) -> dict[str, object]:
    """The data of a job that a run recorded, perhaps in an earlier version."""
    return {"search": "auto-1"} | {RENAMED.get(key, key): value for key, value in recorded.items()}


def expected_in(section: type[Section], key: str) -> str | None:
    """What is expected where a required key is missing."""
    field = section.model_fields[key]
    needed = (each.text for each in field.metadata if isinstance(each, Needed))
    return field.description or next(needed, None)


def path_text(written: object) -> str | None:
    """A path or an address as text; None: it is none, has spaces around it, or cannot be printed."""
    text = str(written) if isinstance(written, str | Path) else ""
    fits = text.isprintable() and 0 < len(text.strip()) == len(text) <= _MOST_CHARACTERS
    return text if fits else None


def without_login(
    text: str, place: str = "the storage's own variables or files (AWS_SECRET_ACCESS_KEY)"
) -> str:
    """Raises `MisfitError` for an address with a user and a password. `place` is where secrets belong."""
    address = ADDRESS.match(text)
    if address is not None and _LOGIN.match(text, address.end()):
        raise MisfitError(
            (),
            "has a user and a password in it, and a job is kept in journals and reports; expected an address "
            f"without them, and secrets as {place}",
        )
    return text
