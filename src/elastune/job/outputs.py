"""What is written for other tools while a real run goes: `logging: [csv, tensorboard, mlflow]`.

Where the checkpoints of a real run go: a folder, or the address of a store such as S3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from elastune.job.section import MisfitError, Section
from elastune.model.quantities import ExpectedError, Word
from elastune.wording import did_you_mean, either

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_SECRET = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/@]*:[^/@]*@")
_MOST_CHARACTERS = 1000
LOGGERS = ("csv", "tensorboard", "mlflow")


def _text(written: object) -> str | None:
    text = str(written) if isinstance(written, str | Path) else ""
    fits = text.isprintable() and 0 < len(text.strip()) == len(text) <= _MOST_CHARACTERS
    return text if fits else None


def _folder(written: object) -> object:
    """True: the usual place. A path is kept whole, since a run may be resumed from anywhere."""
    if written is True or written is None:
        return written
    text = _text(written)
    if text is None:
        raise ExpectedError("a folder, or true for one in the folder of the run")
    return str(Path(text).expanduser().absolute())


def _uri(written: object) -> str:
    text = _text(written)
    if text is None or not _ADDRESS.match(text):
        raise ExpectedError("an address of MLflow, such as http://localhost:5000 or sqlite:///mlflow.db")
    if _SECRET.match(text):
        raise MisfitError(
            (),
            "has a user and a password in it, and a job is kept in journals and reports; expected an address "
            "without them, and secrets as variables of MLflow (MLFLOW_TRACKING_PASSWORD)",
        )
    return text


Folder = Annotated[str | Literal[True], BeforeValidator(_folder)]


class MlflowSection(Section):
    """Without `uri`, what MLflow itself takes: the variable MLFLOW_TRACKING_URI, or a file here."""

    uri: Annotated[str, BeforeValidator(_uri)] | None = None
    experiment: Word | None = None


def _mlflow(written: object) -> object:
    if written is True:
        return {}
    return {"uri": written} if isinstance(written, str) else written


class LoggingSection(Section):
    """One key for each tool; None: nothing is written for it."""

    csv: Folder | None = None
    tensorboard: Folder | None = None
    mlflow: Annotated[MlflowSection, BeforeValidator(_mlflow)] | None = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.csv is None and self.tensorboard is None and self.mlflow is None:
            raise MisfitError((), f"names nothing; expected {either(LOGGERS)}, or no such key")
        return self


def _parse(written: object) -> object:
    """A word, a list of words, or a mapping; false is the same as leaving a tool out."""
    if isinstance(written, LoggingSection):
        return written
    names = [written] if isinstance(written, str) else written
    if isinstance(names, list | tuple):
        for name in names:
            if name not in LOGGERS:
                raise ExpectedError(f"a list of {either(LOGGERS)}{did_you_mean(name, LOGGERS)}")
        return dict.fromkeys(names, True)
    if not isinstance(written, Mapping):
        raise ExpectedError(f"a list of {either(LOGGERS)}, or a mapping with keys of them")
    return {key: None if value is False else value for key, value in written.items()}


Logging = Annotated[LoggingSection, BeforeValidator(_parse)]


def logging_in(folder: Path, written: object) -> object:
    """What was written in a job in `folder`; paths are then seen from the working folder."""
    if not isinstance(written, Mapping):
        return written
    return {
        key: str(folder / Path(value).expanduser())
        if key in ("csv", "tensorboard") and isinstance(value, str | Path) and str(value).strip()
        else value
        for key, value in written.items()
    }


_STORE_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_STORE_SECRET = re.compile(r"[^/@]*:[^/@]*@")


def storage_in(folder: Path, written: object) -> object:
    """What was written in a job in `folder`; a path is then seen from the working folder."""
    if not isinstance(written, str | Path) or not str(written).strip() or _STORE_ADDRESS.match(str(written)):
        return written
    return str(folder / Path(written).expanduser())


def _parse_storage(written: object) -> str:
    text = str(written) if isinstance(written, str | Path) else ""
    address = _STORE_ADDRESS.match(text)
    if (
        not text.isprintable()
        or not 0 < len(text.strip()) == len(text) <= _MOST_CHARACTERS
        or (address is not None and address.end() == len(text))
    ):
        raise ExpectedError("a folder, or an address such as s3://bucket/prefix")
    if address is not None and _STORE_SECRET.match(text, address.end()):
        raise MisfitError(
            (),
            "has a user and a password in it, and a job is kept in journals and reports; expected an address "
            "without them, and secrets as the storage's own variables or files (AWS_SECRET_ACCESS_KEY)",
        )
    return text


Storage = Annotated[str, BeforeValidator(_parse_storage)]
