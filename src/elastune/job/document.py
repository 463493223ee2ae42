"""YAML as plain data with its line numbers, and what is wrong with a job, in sentences.

Scalars follow YAML 1.2, where PyYAML follows 1.1: `1e-3` is a number, `010` is ten, and `1:30` stays text
instead of becoming 90. Keys are always text. A key given twice is an error. The findings of pydantic become
sentences that name the key, what was seen and what is expected; none of pydantic's own wording is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from elastune.errors import JobError
from elastune.job.search import known_algorithms, mistakes_of_any
from elastune.job.section import RENAMED, MisfitError, Section, SeveralMisfitsError, expected_in
from elastune.model.quantities import ExpectedError
from elastune.wording import did_you_mean, either, nearest, seen

_NULL = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TAGS = {
    yaml.ScalarNode: "tag:yaml.org,2002:str",
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
    yaml.MappingNode: "tag:yaml.org,2002:map",
}
_MOST_VALUES = 100_000
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    value: object
    root: yaml.Node | None

    def line_of(self, path: Path) -> int | None:
        """The line of the key at `path`, or of the innermost key on the way that exists."""
        node, line = self.root, None
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line + 1
        return line


def read_yaml(text: str, source: str) -> Document:
    """Parse one YAML document. Raises only `JobError`."""
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
        return Document(_YamlReader(source).read(root) if root else None, root)
    except yaml.MarkedYAMLError as error:
        raise JobError(_describe(error, source, text)) from None
    except yaml.YAMLError as error:
        raise JobError(f"{source}: not valid YAML: {getattr(error, 'reason', 'cannot be read')}") from None
    except RecursionError:
        raise JobError(f"{source}: nested too deeply for a job") from None


@dataclass(slots=True)
class _YamlReader:
    """Turns nodes into data, each node once, even if several aliases point at it."""

    source: str
    done: dict[int, object] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    sizes: dict[int, int] = field(default_factory=dict)  # with all that aliases repeat

    def read(self, node: yaml.Node) -> object:
        if id(node) in self.open:
            raise self._error(node, "an alias refers to a mapping or list that it is part of")
        if node.tag not in (_TAGS[type(node)], "!"):
            raise self._error(node, f"the tag {node.tag} has no meaning in a job")
        if id(node) not in self.done:
            self.open.add(id(node))
            self.done[id(node)] = self._read(node)
            self.open.discard(id(node))
            self._measure(node)
        return self.done[id(node)]

    def _measure(self, node: yaml.Node) -> None:
        """A few lines of aliases to aliases can stand for more values than a machine has room for."""
        inner = node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else []
        parts = [part for each in inner for part in (each if isinstance(each, tuple) else (each,))]
        size = self.sizes[id(node)] = 1 + sum(self.sizes.get(id(part), 1) for part in parts)
        if size > _MOST_VALUES + len(self.done):
            raise self._error(node, f"its aliases stand for more than {_MOST_VALUES:,} values")

    def _read(self, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item) for item in node.value]
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return _scalar(node.value) if is_plain else str(node.value)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, object]:
        lines: dict[str, int] = {}
        mapping: dict[str, object] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a list or mapping cannot be a key")
            if key.value in lines:
                raise self._error(key, f"{seen(key.value)} is given twice, first in line {lines[key.value]}")
            lines[key.value] = key.start_mark.line + 1
            mapping[key.value] = self.read(value)
        return mapping

    def _error(self, node: yaml.Node, text: str) -> JobError:
        return JobError(f"{self.source}, line {node.start_mark.line + 1}: {text}")


def _scalar(text: str) -> object:
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _child(node: yaml.Node | None, part: str) -> tuple[yaml.Node, yaml.Node] | None:
    """The key (for a list: the item itself) and the value under `part`."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
        return node.value[int(part)], node.value[int(part)]
    return None


def _describe(error: yaml.MarkedYAMLError, source: str, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{source}, line {mark.line + 1}" if mark else source
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    if line.startswith("\t") or "'\\t'" in (error.problem or ""):
        return f"{place}: YAML is indented with spaces, this line has a tab"
    return f"{place}: not valid YAML: {error.problem or error.context}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """The message is the dotted path and then `text`. `instead` is the key that was probably meant."""

    path: Path
    text: str
    instead: str | None = None
    is_missing: bool = False

    def __str__(self) -> str:
        return f"{dotted(self.path)} {self.text}" if self.path else self.text


class InvalidJobError(JobError):
    """The message lists all mistakes of the job."""

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
        # Other processes need only the message; the default would call __init__ with it.
        return JobError, (str(self),)


def dotted(path: Path) -> str:
    """The path in a message, where an odd or long key cannot break the line."""
    return ".".join(part if part.isprintable() and len(part) <= 60 else seen(part) for part in path)


def describe(error: ValidationError, sections: Mapping[Path, type[Section]]) -> tuple[Complaint, ...]:
    """One complaint per mistake. A misspelt key and the key that is missing for it count as one."""
    found = []
    for details in error.errors(include_url=False):
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, SeveralMisfitsError):
            above = tuple(str(part) for part in details["loc"])
            found += [Complaint(path=above + each.path, text=str(each)) for each in cause.found]
        else:
            found.append(_describe_mistake(details, sections))
            found += _other_mistakes(details, sections)
    meant = {(*complaint.path[:-1], complaint.instead) for complaint in found if complaint.instead}
    return tuple(item for item in found if not (item.is_missing and item.path in meant))


def _describe_mistake(details: ErrorDetails, sections: Mapping[Path, type[Section]]) -> Complaint:
    path = tuple(str(part) for part in details["loc"])
    if path[:1] == ("search",):
        # The second part is the algorithm by which pydantic chose the class, not a key.
        path = path[:1] + path[2:]
    section = sections.get(path[:-1], sections[("profile", "iteration")])
    value = details["input"]
    cause = details.get("ctx", {}).get("error")
    match details["type"]:
        case "missing":
            text = f"is missing; expected {expected_in(section, path[-1])}"
            return Complaint(path=path, text=text, is_missing=True)
        case "extra_forbidden" | "invalid_key":
            return _renamed_key(path, value) or _unknown_key(path, section, sections)
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


def _other_mistakes(details: ErrorDetails, sections: Mapping[Path, type[Section]]) -> Iterator[Complaint]:
    """Of a search that names no known algorithm, so that its class is not known."""
    search = details["input"]
    if not details["type"].startswith("union_tag") or not isinstance(search, Mapping):
        return
    reported = _unknown_algorithm(("search",), search, sections).path[-1]
    for key, (section, mistakes) in mistakes_of_any(search).items():
        chosen = {**sections, ("search",): section}
        for each in mistakes if key != reported else ():
            inside: ErrorDetails = {**each, "loc": ("search", "", *each["loc"])}
            yield _describe_mistake(inside, chosen)


def _renamed_key(path: Path, value: object) -> Complaint | None:
    if len(path) > 1 or path[0] not in RENAMED:
        return None
    key = RENAMED[path[0]]
    written = f": {value}" if isinstance(value, str) and value.isidentifier() else ""
    return Complaint(path=path, text=f"is now called {key}; write {key}{written}", instead=key)


def _unknown_key(path: Path, section: type[Section], sections: Mapping[Path, type[Section]]) -> Complaint:
    *above, key = path
    wrong = f"is not a key of {dotted(tuple(above)) or 'a job'}"
    elsewhere = [(*place, key) for place, other in sections.items() if key in other.model_fields]
    if elsewhere:
        return Complaint(path=path, text=f"{wrong}; did you mean '{dotted(elsewhere[0])}'?")
    instead = nearest(key, section.model_fields)
    if instead:
        return Complaint(path=path, text=f"{wrong}; did you mean '{instead}'?", instead=instead)
    return Complaint(path=path, text=f"{wrong}; expected one of: {', '.join(section.model_fields)}")


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
