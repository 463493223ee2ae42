"""CSV while the run goes: `rows.csv` grows, `trials.csv` is as the trials stand."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from elastune.exports.columns import OF_ROWS, metric_column, metric_names, trial_columns
from elastune.exports.files import write_csv
from elastune.exports.lines import News, RowLine, TrialLine


class CsvSink:
    """Begins with new files: whoever opens it tells the whole run so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = folder / "rows.csv"
        self._trials: dict[int, TrialLine] = {}
        self._metrics: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._write_header()

    @property
    def where(self) -> str:
        return str(self._folder)

    def update(self, news: News) -> None:
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

    def _write_header(self) -> None:
        with self._rows.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(self._header())

    def _values(self, row: RowLine) -> list[object]:
        return [
            row.trial,
            row.iteration,
            row.at_s,
            *(row.metrics.get(name, math.nan) for name in self._metrics),
        ]

    def _widen(self) -> None:
        """A metric came up that the header does not have: rare, so the file is written anew."""
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
