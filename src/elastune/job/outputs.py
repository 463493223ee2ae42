"""What a real run writes: `logging: [csv, tensorboard, mlflow, wandb]` for other tools, and where checkpoints
go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from elastune.curves.source import located
from elastune.job.section import ADDRESS, MisfitError, Section, path_text, without_login
from elastune.model.quantities import ExpectedError, Word
from elastune.wording import did_you_mean, either

_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
LOGGERS = ("csv", "tensorboard", "mlflow", "wandb")


def _folder(written: object) -> object:
    """True: the usual place. Paths are absolute, because a run may be resumed from another folder."""
    if written is True or written is None:
        return written
    text = path_text(written)
    if text is None:
        raise ExpectedError("a folder, or true for one in the folder of the run")
    return str(Path(text).expanduser().absolute())


def _uri(written: object) -> str:
    text = path_text(written)
    if text is None or not _URI.match(text):
        raise ExpectedError("an address of MLflow, such as http://localhost:5000 or sqlite:///mlflow.db")
    return without_login(text, "variables of MLflow (MLFLOW_TRACKING_PASSWORD)")


Folder = Annotated[str | Literal[True], BeforeValidator(_folder)]


class MlflowSection(Section):
    """Without `uri`, MLflow's own default: the variable MLFLOW_TRACKING_URI, or a file here."""

    uri: Annotated[str, BeforeValidator(_uri)] | None = None
    experiment: Word | None = None


def _mlflow(written: object) -> object:
    if written is True:
        return {}
    return {"uri": written} if isinstance(written, str) else written


class WandbSection(Section):
    """Without `mode`, W&B's own default: the variable WANDB_MODE, or online. The project is the job's name
    unless it is given."""

    project: Word | None = None
    entity: Word | None = None
    mode: Literal["online", "offline"] | None = None


def _wandb(written: object) -> object:
    if written is True:
        return {}
    return {"project": written} if isinstance(written, str) else written


class LoggingSection(Section):
    """One key for each tool; None: it is off."""

    csv: Folder | None = None
    tensorboard: Folder | None = None
    mlflow: Annotated[MlflowSection, BeforeValidator(_mlflow)] | None = None
    wandb: Annotated[WandbSection, BeforeValidator(_wandb)] | None = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if all(getattr(self, name) is None for name in LOGGERS):
            raise MisfitError((), f"names nothing; expected {either(LOGGERS)}, or no such key")
        return self


def _parse(written: object) -> object:
    """A word, a list of words, or a mapping, in which false is the same as leaving a tool out."""
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
    """As written in a job in `folder`, with paths as seen from the working folder."""
    if not isinstance(written, Mapping):
        return written
    paths = {key: written[key] for key in ("csv", "tensorboard") if isinstance(written.get(key), str | Path)}
    seen = {key: str(folder / Path(path).expanduser()) for key, path in paths.items() if str(path).strip()}
    return {**written, **seen}


def _parse_callbacks(written: object) -> object:
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list | tuple) or not all(
        isinstance(each, str) and ":" in each for each in names
    ):
        raise ExpectedError("names of classes, such as [my_module:MyCallback, path/to/file.py:Notify]")
    return tuple(names)


Callbacks = Annotated[tuple[str, ...], BeforeValidator(_parse_callbacks)]


def callbacks_in(folder: Path, written: object) -> object:
    """As written in a job in `folder`, with paths as seen from the working folder."""
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list | tuple):
        return written
    return [located(each, folder) if isinstance(each, str) else each for each in names]


def storage_in(folder: Path, written: object) -> object:
    """As written in a job in `folder`: a path as seen from the working folder, anything else unchanged."""
    if not isinstance(written, str | Path) or not str(written).strip() or ADDRESS.match(str(written)):
        return written
    return str(folder / Path(written).expanduser())


def _parse_storage(written: object) -> str:
    text = path_text(written)
    if text is None or ADDRESS.fullmatch(text):
        raise ExpectedError("a folder, or an address such as s3://bucket/prefix")
    return without_login(text)


Storage = Annotated[str, BeforeValidator(_parse_storage)]
