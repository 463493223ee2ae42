"""Tables of a run as DataFrames and as CSV, JSON and Parquet files, and log writers for a running run.

`WriterThread` runs one `LogWriter`, so that a slow server never blocks the run. While a run goes on,
`CsvWriter` appends to `rows.csv` and rewrites `trials.csv`. Other writers are in modules of their own.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import logging
import math
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from elastune.errors import ElastuneError, JobError
from elastune.history.notes import RunNote
from elastune.history.trial_tables import (
    OF_ROWS,
    Columns,
    metric_column,
    metric_names,
    trial_columns,
    uniform,
)
from elastune.history.trials import RowEntry, TrialEntry
from elastune.model.metric import Mode
from elastune.wording import without_secrets

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    run: str
    name: str
    policy: str
    seed: int
    body: str
    created_utc: datetime
    metric: str
    mode: Mode

    def wall_s(self, at_s: float) -> float:
        """Run time as seconds since 1970. The run's clock is stopped while its driver is down."""
        return self.created_utc.timestamp() + at_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews:
    """Changes since the last update: new or changed trials, new rows."""

    trials: tuple[TrialEntry, ...]
    rows: tuple[RowEntry, ...]
    ending: str | None = None  # None: the run has not ended
    best: TrialEntry | None = None


def require(library: str, *, extra: str, what: str) -> None:
    """Raise `JobError` if an optional library is missing, before any work is done."""
    if importlib.util.find_spec(library) is None:
        raise JobError(f"{what} needs {library}: pip install 'elastune[{extra}]'")


_WHOLE = ("best_iteration", "slots", "parent")
_NUMBERS = ("final", "best", "best_reported", "started_s", "ended_s")


def to_frame(columns: Columns) -> pd.DataFrame:
    """A DataFrame. Integer columns with missing values stay integers (`Int64`)."""
    require("pandas", extra="pandas", what="a table of a run")
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame({name: _typed(name, column) for name, column in columns.items()})


def _typed(name: str, column: list[object]) -> pd.Series:
    import pandas as pd  # noqa: PLC0415

    types = {type(value) for value in column}
    if name in _NUMBERS:
        return pd.Series(column, dtype="float64")
    if name in _WHOLE or types == {int, type(None)}:
        return pd.Series(column, dtype="Int64")
    if types == {bool, type(None)}:
        return pd.Series(column, dtype="boolean")
    return pd.Series(column, dtype=object if len(types - {type(None)}) > 1 and str in types else None)


def write_csv(path: Path, columns: Columns) -> None:
    """UTF-8 with a header; missing values are empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_json(path: Path, columns: Columns) -> None:
    """A list of objects. JSON has no NaN and no infinity: they are text, as in the journal."""
    rows = zip(*columns.values(), strict=True)
    lines = (dict(zip(columns, map(_to_json, values), strict=True)) for values in rows)
    text = ",\n".join(json.dumps(line, ensure_ascii=False, allow_nan=False) for line in lines)
    path.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def write_parquet(path: Path, columns: Columns) -> None:
    require("pyarrow", extra="parquet", what="Parquet")
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    table = pa.table({name: pa.array(uniform(column)) for name, column in columns.items()})
    pq.write_table(table, path)


WRITERS = {"csv": write_csv, "json": write_json, "parquet": write_parquet}


def write_tables(
    format_: str, folder: Path, tables: dict[str, Columns], *, force: bool = False
) -> tuple[Path, ...]:
    """Each table into a file of its name. Existing files are replaced only with `force`."""
    paths = {folder / f"{name}.{format_}": columns for name, columns in tables.items()}
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise JobError(f"{there[0]} exists already; choose another folder with --to, or pass --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, columns in paths.items():
            part = path.with_name(f".{path.name}.part")
            WRITERS[format_](part, columns)
            part.replace(path)
    except OSError as error:
        raise JobError(f"{folder} cannot be written: {error.strerror}; choose another with --to") from error
    return tuple(paths)


def _to_json(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class LogWriter(Protocol):
    """Replaces or continues what it wrote earlier for the same run; never writes it twice."""

    @property
    def where(self) -> str:
        """The folder or address, to be shown."""

    def update(self, news: RunNews) -> None:
        """Write the changes. May take long: the loop of a run never calls it."""

    def close(self) -> None:
        """No more updates follow."""


# A server that does not answer must not delay the end of a run.
_PATIENCE_S = 30.0
_log = logging.getLogger("elastune")


class WriterThread:
    """Stops writing after the first error; the missing part can be exported later."""

    def __init__(
        self,
        name: str,
        opener: Callable[[], LogWriter],
        *,
        explain: Callable[[str], str],
        now: Callable[[], float],
    ) -> None:
        """`explain` makes the note for the user of the reason why the writing has stopped."""
        self.complaint: RunNote | None = None
        self._open = opener
        self._explain = explain
        self._now = now
        self._news: queue.SimpleQueue[RunNews | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"log-{name}", daemon=True)
        self._thread.start()

    def tell(self, news: RunNews) -> None:
        if self.complaint is None:
            self._news.put(news)

    def close(self, patience_s: float = _PATIENCE_S) -> None:
        """Wait until everything is written, for `patience_s` at most."""
        self._news.put(None)
        self._thread.join(patience_s)
        if self._thread.is_alive():
            self._give_up(f"it has not answered for {patience_s:g} s")

    def _work(self) -> None:
        try:
            writer = self._open()
            while (news := self._news.get()) is not None:
                writer.update(news)
            writer.close()
        except ElastuneError as error:
            self._give_up(without_secrets(str(error).splitlines()[0]))
        except Exception as error:  # noqa: BLE001  libraries and servers may raise anything
            self._give_up(without_secrets(f"{type(error).__name__}: {error}".splitlines()[0]))

    def _give_up(self, why: str) -> None:
        if self.complaint is not None:
            return
        text = self._explain(why)
        self.complaint = RunNote(at_s=self._now(), topic="logging", text=text)
        _log.warning(text)


class CsvWriter:
    """Starts with new files; its first update must hold the whole run so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = folder / "rows.csv"
        self._trials: dict[int, TrialEntry] = {}
        self._metrics: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        with self._rows.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(self._header())

    @property
    def where(self) -> str:
        return str(self._folder)

    def update(self, news: RunNews) -> None:
        fresh = [name for name in metric_names(news.rows) if name not in self._metrics]
        if fresh:
            self._metrics += fresh
            self._widen()
        with self._rows.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(map(self._values, news.rows))
        if news.trials:
            self._trials |= {line.trial: line for line in news.trials}
            part = self._folder / ".trials.csv.part"
            write_csv(part, trial_columns([self._trials[number] for number in sorted(self._trials)]))
            part.replace(self._folder / "trials.csv")

    def close(self) -> None:
        """Nothing is held open."""

    def _header(self) -> list[str]:
        return [*OF_ROWS, *map(metric_column, self._metrics)]

    def _values(self, row: RowEntry) -> list[object]:
        metrics = [row.metrics.get(name, math.nan) for name in self._metrics]
        return [row.trial, row.iteration, row.at_s, *metrics]

    def _widen(self) -> None:
        """Rewrite the file with columns for new metrics, which is rare."""
        part = self._folder / ".rows.csv.part"
        header = self._header()
        with (
            self._rows.open(encoding="utf-8", newline="") as before,
            part.open("w", encoding="utf-8", newline="") as after,
        ):
            lines = csv.reader(before)
            next(lines, None)
            writer = csv.writer(after, lineterminator="\n")
            writer.writerow(header)
            writer.writerows([*line, *["nan"] * (len(header) - len(line))] for line in lines)
        part.replace(self._rows)
