"""What is wrong with a job, in words.

Turns the findings of pydantic into sentences that name the key, what was seen and what is expected, and
puts them together into one message. Nothing of pydantic's own wording gets through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from elastune.errors import JobError
from elastune.job.search import known_algorithms
from elastune.job.section import MisfitError, Section, expected_in
from elastune.quantities import ExpectedError
from elastune.wording import did_you_mean, either, nearest, seen

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """`text` goes on after the dotted path. `instead` is the key that was probably meant."""

    path: Path
    text: str
    instead: str | None = None
    is_missing: bool = False

    def __str__(self) -> str:
        return f"{dotted(self.path)} {self.text}" if self.path else self.text


class InvalidJobError(JobError):
    """The job is wrong in one or more places; the message lists them all."""

    def __init__(
        self,
        complaints: tuple[Complaint, ...],
        source: str = "job",
        line_of: Callable[[Path], int | None] = lambda _: None,
    ) -> None:
        self.complaints = complaints
        found = sorted((line_of(complaint.path) or 0, str(complaint)) for complaint in complaints)
        if len(found) == 1:
            line, text = found[0]
            super().__init__(f"{source}, line {line}: {text}" if line else f"{source}: {text}")
        else:
            rows = [f"  line {line}: {text}" if line else f"  {text}" for line, text in found]
            super().__init__("\n".join([f"{source}: {len(found)} problems", *rows]))

    def __reduce__(self) -> tuple[type[JobError], tuple[str]]:
        # Between processes only the message matters; the default would call __init__ with it.
        return JobError, (str(self),)


def dotted(path: Path) -> str:
    """The path in a message; a key that is odd or long cannot break the line."""
    return ".".join(part if part.isprintable() and len(part) <= 60 else seen(part) for part in path)


def describe(error: ValidationError, sections: Mapping[Path, type[Section]]) -> tuple[Complaint, ...]:
    """One complaint per mistake. A misspelt key and the key that is missing for it are one mistake."""
    found = [_describe(details, sections) for details in error.errors(include_url=False)]
    meant = {(*complaint.path[:-1], complaint.instead) for complaint in found if complaint.instead}
    return tuple(item for item in found if not (item.is_missing and item.path in meant))


def _describe(details: ErrorDetails, sections: Mapping[Path, type[Section]]) -> Complaint:
    path = tuple(str(part) for part in details["loc"])
    if path[:1] == ("search",):
        # The second part is the algorithm by which pydantic chose the class, not a key.
        path = path[:1] + path[2:]
    section = sections.get(path[:-1], sections[("profile", "iteration")])
    value = details["input"]
    cause = details.get("ctx", {}).get("error")
    match details["type"]:
        case "missing":
            wanted = expected_in(section, path[-1])
            return Complaint(path=path, text=f"is missing; expected {wanted}", is_missing=True)
        case "extra_forbidden" | "invalid_key":
            return _unknown_key(path, section, sections)
        case "union_tag_not_found" | "union_tag_invalid":
            return _unknown_algorithm(path, value, sections)
        case "value_error" if isinstance(cause, MisfitError):
            return Complaint(path=path + cause.path, text=str(cause))
        case "value_error" if isinstance(cause, ExpectedError):
            expected = str(cause)
        case kind:
            inner = sections.get(path, sections[("profile", "iteration")])
            mapping = f"a mapping with keys of: {', '.join(inner.model_fields)}"
            expected = "a list of durations" if kind == "tuple_type" else mapping
    return Complaint(path=path, text=f"is {seen(value)}; expected {expected}")


def _unknown_key(path: Path, section: type[Section], sections: Mapping[Path, type[Section]]) -> Complaint:
    *above, key = path
    room = dotted(tuple(above)) or "a job"
    elsewhere = [(*home, key) for home, other in sections.items() if key in other.model_fields]
    if elsewhere:
        return Complaint(path=path, text=f"is not a key of {room}; did you mean '{dotted(elsewhere[0])}'?")
    instead = nearest(key, section.model_fields)
    if instead:
        return Complaint(
            path=path, text=f"is not a key of {room}; did you mean '{instead}'?", instead=instead
        )
    return Complaint(
        path=path, text=f"is not a key of {room}; expected one of: {', '.join(section.model_fields)}"
    )


def _unknown_algorithm(path: Path, search: object, sections: Mapping[Path, type[Section]]) -> Complaint:
    path = (*path, "algorithm")
    if not isinstance(search, Mapping) or "algorithm" in search:
        value = search["algorithm"] if isinstance(search, Mapping) else search
        hint = did_you_mean(value, known_algorithms())
        return Complaint(path=path, text=f"is {seen(value)}; expected {either(known_algorithms())}{hint}")
    for key in search:
        if key not in sections[path[:-1]].model_fields and nearest(key, ["algorithm"]):
            return _unknown_key((*path[:-1], str(key)), sections[path[:-1]], sections)
    return Complaint(path=path, text=f"is missing; expected {either(known_algorithms())}")
