"""Hides what a job should not have in it and sometimes has: passwords, keys and tokens."""

from __future__ import annotations

import re

import yaml

from elastune.errors import JobError
from elastune.job.document import read_yaml

HIDDEN = "(hidden)"
_KEY = re.compile(
    r"(?i)(secret|passw(or)?d|credential|api_?key|access_?key|private_?key|auth|(^|_|-)token($|_|-)|bearer)"
)
# Names of secrets, which are no secrets.
_NAMES = frozenset({"token_secret"})
# Words are matched from their beginning alone, else a long one without a match takes minutes.
_IN_URL = re.compile(r"(?<![a-zA-Z0-9+.-])(?P<before>[a-zA-Z0-9+.-]+://[^\s/:@]*):[^\s/@]+@")
# As in the lines of a shell script: export API_KEY=...
_ASSIGNED = re.compile(r"(?P<name>\b[A-Za-z_][A-Za-z0-9_]*)=(?P<value>[^\s'\"]+|'[^']*'|\"[^\"]*\")")
# A key before its value, somewhere in a line.
_KEYED = re.compile(r"(?<![\w.-])(?P<key>[\w.-]+)(?:[\"']\s*:\s*|\s*:\s+)(?=\S)")


def masked(value: object) -> object:
    """Plain data of a job, with the values of telling keys hidden, and passwords in addresses."""
    match value:
        case dict():
            return {key: _masked_key(str(key), each) for key, each in value.items()}
        case list() | tuple():
            return [masked(each) for each in value]
        case str():
            return _ASSIGNED.sub(_unassigned, _IN_URL.sub(rf"\g<before>:{HIDDEN}@", value))
        case _:
            return value


def _masked_key(key: str, value: object) -> object:
    is_told = _tells(key) and isinstance(value, str | int | float)
    return HIDDEN if is_told and not isinstance(value, bool) else masked(value)


def _tells(key: str) -> bool:
    return _KEY.search(key) is not None and key not in _NAMES


def _unassigned(found: re.Match[str]) -> str:
    return f"{found['name']}={HIDDEN}" if _KEY.search(found["name"]) else found[0]


def _masked_line(line: str) -> str:
    """Of a text that is no job, where only lines tell what belongs to a key: all after the first such key."""
    ends = (found.end() for found in _KEYED.finditer(line) if _tells(found["key"]))
    end = next(ends, None)
    return str(masked(line)) if end is None else f"{masked(line[:end])}{HIDDEN}"


def masked_text(text: str) -> str:
    """A job file; without anything to hide it stays as it is, with its comments."""
    try:
        data = read_yaml(text, "the job").value
    except JobError:
        return "\n".join(map(_masked_line, text.split("\n")))
    hidden = masked(data)
    return text if hidden == data else yaml.safe_dump(hidden, sort_keys=False, allow_unicode=True)
