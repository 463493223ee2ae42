"""Where the checkpoints of a real run go: a folder, or the address of a store such as S3."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from elastune.job.section import MisfitError
from elastune.quantities import ExpectedError

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_SECRET = re.compile(r"[^/@]*:[^/@]*@")
_MOST_CHARACTERS = 1000


def storage_in(folder: Path, written: object) -> object:
    """What was written in a job in `folder`; a path is then seen from the working folder."""
    if not isinstance(written, str | Path) or not str(written).strip() or _ADDRESS.match(str(written)):
        return written
    return str(folder / Path(written).expanduser())


def _parse(written: object) -> str:
    text = str(written) if isinstance(written, str | Path) else ""
    address = _ADDRESS.match(text)
    if (
        not text.isprintable()
        or not 0 < len(text.strip()) == len(text) <= _MOST_CHARACTERS
        or (address is not None and address.end() == len(text))
    ):
        raise ExpectedError("a folder, or an address such as s3://bucket/prefix")
    if address is not None and _SECRET.match(text, address.end()):
        raise MisfitError(
            (),
            "has a user and a password in it, and a job is kept in journals and reports; expected an address "
            "without them, and secrets as the storage's own variables or files (AWS_SECRET_ACCESS_KEY)",
        )
    return text


Storage = Annotated[str, BeforeValidator(_parse)]
