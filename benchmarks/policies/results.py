"""What came of single runs, appended to files as it comes, so that a stopped campaign goes on where it was.

One file of JSON lines per contestant: to measure one again, delete its file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import elastune


class Key(NamedTuple):
    """What a run is compared by: the same rows are drawn in it first."""

    table: str
    law: str
    cell: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Shares are of the deadline and of the budget. `last_regret`: of the best of the last round, if any."""

    contestant: str
    table: str
    law: str
    cell: str
    seed: int
    regret: float
    last_regret: float | None
    best: float | None
    best_iterations: int
    trials: int
    iterations: int
    time_share: float
    budget_share: float
    cpu_s: float
    code: str
    """A hash of the code that was measured."""

    @property
    def key(self) -> Key:
        return Key(self.table, self.law, self.cell, self.seed)


class ResultFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, results: Iterable[Result]) -> None:
        for result in results:
            path = self._path(result.contestant)
            path.parent.mkdir(parents=True, exist_ok=True)
            broken = path.is_file() and not path.read_bytes().endswith(b"\n")
            line = json.dumps(dataclasses.asdict(result)) + "\n"
            with path.open("a", encoding="utf-8") as file:
                file.write("\n" + line if broken else line)

    def read(self, contestants: Iterable[str]) -> Iterator[Result]:
        """All results of these; of two of the same run the later one. A line that was cut off is skipped."""
        for name in contestants:
            path, found = self._path(name), dict[Key, Result]()
            for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
                try:
                    result = Result(**json.loads(line))
                except (json.JSONDecodeError, TypeError):
                    continue
                found[result.key] = result
            yield from found.values()

    def _path(self, contestant: str) -> Path:
        return self.folder / f"{re.sub(r'[^a-z0-9]+', '-', contestant.lower()).strip('-')}.jsonl"


@cache
def code_hash() -> str:
    """Of the package and of this benchmark."""
    digest = hashlib.sha256()
    for root in (Path(elastune.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
