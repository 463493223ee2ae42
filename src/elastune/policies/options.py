"""A policy's options out of the job's search section, which has checked them already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elastune.errors import JobError
from elastune.wording import either, seen


@dataclass(frozen=True, slots=True)
class Options:
    """What is missing has its default; what has none is asked for."""

    policy: str
    given: Mapping[str, object]

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.given.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if value is None and default is not None:
            return default
        raise self._needs(key, "a whole number")

    def optional_whole(self, key: str) -> int | None:
        return None if self.given.get(key) is None else self.whole(key)

    def number(self, key: str, default: float) -> float:
        value = self.given.get(key)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self._needs(key, "a number")

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.given.get(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        raise self._needs(key, "true or false")

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """The first one is the default."""
        value = self.given.get(key)
        if value is None:
            return allowed[0]
        if isinstance(value, str) and value in allowed:
            return value
        raise self._needs(key, either(allowed))

    def _needs(self, key: str, expected: str) -> JobError:
        value = self.given.get(key)
        was = "is missing" if value is None else f"is {seen(value)}"
        return JobError(f"search.{key} {was}; {self.policy} needs {expected}")
