"""YAML text as plain data that still knows its lines.

Scalars follow YAML 1.2, where PyYAML follows 1.1 and surprises people: `1e-3` is a number, `010` is ten,
and `1:30` stays text instead of turning into 90. Keys are always text. A key given twice is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import yaml

from elastune.errors import JobError
from elastune.wording import seen

_NULL = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TAGS = {
    yaml.ScalarNode: "tag:yaml.org,2002:str",
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
    yaml.MappingNode: "tag:yaml.org,2002:map",
}


@dataclass(frozen=True, slots=True)
class Document:
    """What was read, and the tree it was read from."""

    value: object
    root: yaml.Node | None

    def line_of(self, path: tuple[str, ...]) -> int | None:
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
    """Parse one YAML document. Nothing but `JobError` comes out of bad text."""
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
        return Document(_Reader(source).read(root) if root else None, root)
    except yaml.MarkedYAMLError as error:
        raise JobError(_describe(error, source, text)) from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", "cannot be read")
        raise JobError(f"{source}: not valid YAML: {reason}") from None
    except RecursionError:
        raise JobError(f"{source}: nested too deeply for a job") from None


@dataclass(slots=True)
class _Reader:
    """Turns nodes into data. Each node once, however many aliases point at it."""

    source: str
    done: dict[int, object] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def read(self, node: yaml.Node) -> object:
        if id(node) in self.open:
            raise self._error(node, "an alias refers to a mapping or list that it is part of")
        if node.tag not in (_TAGS[type(node)], "!"):
            raise self._error(node, f"the tag {node.tag} has no meaning in a job")
        if id(node) not in self.done:
            self.open.add(id(node))
            self.done[id(node)] = self._read(node)
            self.open.discard(id(node))
        return self.done[id(node)]

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
