"""Hides what a job should not have in it and sometimes has: passwords, keys and tokens."""

from __future__ import annotations

import re

import yaml

HIDDEN = "(hidden)"
_KEY = re.compile(
    r"(?i)(secret|passw(or)?d|credential|api_?key|access_?key|private_?key|auth|(^|_|-)token($|_|-)|bearer)"
)
# Names of secrets, which are no secrets.
_NAMES = frozenset({"token_secret"})
_IN_URL = re.compile(r"(?P<before>[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*):[^\s/@]+@")
# As in the lines of a shell script: export API_KEY=...
_ASSIGNED = re.compile(r"(?P<name>\b[A-Za-z_][A-Za-z0-9_]*)=(?P<value>[^\s'\"]+|'[^']*'|\"[^\"]*\")")


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
    is_told = _KEY.search(key) and key not in _NAMES and isinstance(value, str | int | float)
    return HIDDEN if is_told and not isinstance(value, bool) else masked(value)


def _unassigned(found: re.Match[str]) -> str:
    return f"{found['name']}={HIDDEN}" if _KEY.search(found["name"]) else found[0]


def masked_text(text: str) -> str:
    """A job file; without anything to hide it stays as it is, with its comments."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        return _IN_URL.sub(rf"\g<before>:{HIDDEN}@", text)
    hidden = masked(data)
    return text if hidden == data else yaml.safe_dump(hidden, sort_keys=False, allow_unicode=True)
