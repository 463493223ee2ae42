"""The result of a check: one finding per question, and what was measured on the way."""

from __future__ import annotations

import enum
import linecache
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from elastune.errors import JobError
from elastune.training.sharing import Sharing, gang_limit

# As IPython and the kernel of Jupyter name what they compile.
_CELL = re.compile(r"^<ipython-input-|[/\\]ipykernel_\d+[/\\]\d+\.py$")


class CheckStatus(enum.StrEnum):
    """From best to worst."""

    FINE = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """A line of the user's code."""

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        if _CELL.search(self.file):
            return f"line {self.line} of a notebook cell"
        return f"{self.file}:{self.line}"

    def with_code(self) -> CodePlace:
        """Only the notebook itself, not the process that ran its code, knows the lines of its cells."""
        code = self.code or linecache.getline(self.file, self.line).strip()
        return replace(self, code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """`remedy` is what to write, at `place`."""

    about: str
    status: CheckStatus
    text: str
    place: CodePlace | None = None
    remedy: str | None = None

    def with_code(self) -> CheckFinding:
        return self if self.place is None else replace(self, place=self.place.with_code())

    def lines(self) -> Iterator[str]:
        """As text: what was seen, where, what to do."""
        yield f"{self.about}: {self.text}"
        if self.place is not None:
            yield f"{self.place}: {self.place.code}".rstrip(": ")
        if self.remedy is not None:
            yield self.remedy

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        place = None if plain["place"] is None else CodePlace(**plain["place"])
        return cls(**{**plain, "status": CheckStatus(plain["status"]), "place": place})


def fine(about: str, text: str) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.FINE, text=text)


def note(about: str, text: str, place: CodePlace | None = None, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.NOTE, text=text, place=place, remedy=remedy)


def warning(about: str, text: str, place: CodePlace | None = None, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.WARNING, text=text, place=place, remedy=remedy)


def failed(about: str, text: str, place: CodePlace | None = None, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(about=about, status=CheckStatus.FAILED, text=text, place=place, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstMeasurement:
    """Of one slot of this machine, with one configuration. An iteration that was cut short is not here."""

    startup_s: float
    iterations_s: tuple[float, ...]
    save_s: float
    state_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    trainable: str
    findings: tuple[CheckFinding, ...]
    declared_slots: int | None
    """The trainable's `most_slots`."""
    sharing: Sharing
    took_s: float
    iterations: int = 0
    """Iterations that were begun on one slot, shortened ones as well."""
    measured: FirstMeasurement | None = None
    output: str | None = None
    """The file with what the training printed."""
    key: str = field(default="", compare=False)
    """Of what was checked, to find it again."""

    @property
    def failures(self) -> tuple[CheckFinding, ...]:
        return tuple(each for each in self.findings if each.status is CheckStatus.FAILED)

    @property
    def is_fine(self) -> bool:
        """Nothing failed; there may be warnings."""
        return not self.failures

    @property
    def most_slots(self) -> int | None:
        """The largest gang; None: any."""
        return gang_limit(self.declared_slots, self.sharing)

    def require_fine(self) -> None:
        """Raises `JobError` with all failures."""
        if self.failures:
            told = ["\n    ".join(each.lines()) for each in self.failures]
            output = "" if self.output is None else f"\nwhat it printed is in {self.output}"
            raise JobError(
                f"{self.trainable} failed the check before the run:\n  " + "\n  ".join(told) + output
            )

    def to_dict(self) -> dict[str, object]:
        plain = asdict(self)
        findings = [{**each, "status": each["status"].value} for each in plain["findings"]]
        return {
            **plain,
            "findings": findings,
            "sharing": self.sharing.value,
            "most_slots": self.most_slots,
            "is_fine": self.is_fine,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_dict`, also through JSON. Other data raise `KeyError`, `TypeError` or `ValueError`."""
        given = {name: value for name, value in plain.items() if name not in ("most_slots", "is_fine")}
        measured = given["measured"]
        if measured is not None:
            measured = FirstMeasurement(**{**measured, "iterations_s": tuple(measured["iterations_s"])})
        return cls(
            **{
                **given,
                "findings": tuple(CheckFinding.of(each) for each in given["findings"]),
                "sharing": Sharing(given["sharing"]),
                "measured": measured,
            }
        )
