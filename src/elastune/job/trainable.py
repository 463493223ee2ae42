"""How a job names its trainable and its space. The trainable is opened by `elastune.curves.opening`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import (
    BeforeValidator,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from elastune.curves.opening import SYNTHETIC, possible
from elastune.curves.source import CURVE_SUFFIXES, CurveFile, Function, Reference, located
from elastune.job.section import MisfitError, Section, SeveralMisfitsError
from elastune.model.quantities import ExpectedError, Word, word
from elastune.space.function_space import FunctionSpace
from elastune.space.parsing import parse_space
from elastune.space.sampler import AnySpace as OpenSpace
from elastune.space.space import Space, SpaceError
from elastune.training.recipe import load
from elastune.wording import did_you_mean


def _curve_path(value: object) -> str:
    path = str(value) if isinstance(value, str | Path) else ""
    if not path.endswith(CURVE_SUFFIXES):
        raise ExpectedError("the path of a file of curves, such as curves.npz or curves.parquet")
    return path


def _task(value: object) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return word(value)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise ExpectedError("a list of names, such as [lr, momentum]")
    return tuple(word(name) for name in value)


class CurvesSection(Section):
    """Recorded curves, with what the rules for such files cannot derive."""

    curves: Annotated[str, BeforeValidator(_curve_path)] = Field(description="the path of a file of curves")
    task: Annotated[str | int, PlainValidator(_task)] | None = None
    parameters: Annotated[tuple[str, ...], PlainValidator(_names)] | None = None
    length: Word | None = None

    def to_file(self) -> CurveFile:
        return CurveFile(path=self.curves, task=self.task, parameters=self.parameters, length=self.length)


def written_in(folder: Path, written: object) -> object:
    """As written in a job in `folder`, with its path as seen from the working folder."""
    if isinstance(written, Mapping) and isinstance(written.get("curves"), str | Path):
        return {**written, "curves": str(folder / written["curves"])}
    if isinstance(written, Path):
        return folder / written
    return located(written, folder) if isinstance(written, str) else written


def _parse(written: object, as_section: ValidatorFunctionWrapHandler) -> Reference:
    if isinstance(written, CurveFile):
        written = _to_plain(written)
    if isinstance(written, Path):
        written = str(written)
    if isinstance(written, str):
        if written.endswith(CURVE_SUFFIXES):
            return CurveFile(path=written)
        if written not in SYNTHETIC and (":" not in written or written.startswith("synthetic:")):
            raise ExpectedError(f"{possible()}{did_you_mean(written, SYNTHETIC)}")
        return written
    if callable(written):
        return written
    if not isinstance(written, Mapping):
        raise ExpectedError(possible())
    section: CurvesSection = as_section(written)
    return section.to_file()


def _to_plain(reference: Reference) -> str | dict[str, object]:
    """A function given in Python becomes its name, from which it can be imported."""
    if isinstance(reference, CurveFile):
        parameters = list(reference.parameters) if reference.parameters else None
        options = {"task": reference.task, "parameters": parameters, "length": reference.length}
        given = {key: value for key, value in options.items() if value is not None}
        return {"curves": reference.path, **given}
    return reference if isinstance(reference, str) else _name_of(reference)


def _name_of(function: Function) -> str:
    return f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"


SpaceReference = Space | str | Function
"""A written space, or a function suggest(trial), itself or by its name."""


def open_space(reference: SpaceReference) -> OpenSpace:
    """Import the function if the space is one."""
    if isinstance(reference, Space):
        return reference
    if isinstance(reference, str):
        return FunctionSpace(function=load(reference), name=reference)
    return FunctionSpace(function=reference, name=_name_of(reference))


def _space_to_plain(reference: SpaceReference) -> object:
    if isinstance(reference, Space):
        return reference.to_plain()
    return reference if isinstance(reference, str) else _name_of(reference)


def _parse_space(written: object) -> SpaceReference:
    if isinstance(written, str) and ":" in written:
        return written
    if isinstance(written, FunctionSpace):
        return written.function
    if callable(written):
        return written
    try:
        return parse_space(written)
    except SpaceError as error:
        raise SeveralMisfitsError(MisfitError(each.path, each.text) for each in error.mistakes) from None


AnyTrainable = Annotated[
    Reference,
    GetPydanticSchema(lambda _, handler: handler.generate_schema(CurvesSection)),
    WrapValidator(_parse),
    PlainSerializer(_to_plain),
]
AnySpace = Annotated[SpaceReference, PlainValidator(_parse_space), PlainSerializer(_space_to_plain)]


def is_code(reference: Reference | None) -> bool:
    """Whether a trainable is a class or a function, not a file of curves or a built-in function."""
    if reference is None or isinstance(reference, CurveFile):
        return False
    return not isinstance(reference, str) or reference not in SYNTHETIC
