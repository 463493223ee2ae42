"""The table of a run's trials, as plain data and as a CSV file for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from elastune.history.trial_tables import CONFIG, trial_columns
from elastune.history.trials import TrialEntry
from elastune.model.metric import Mode
from elastune.views.page.figures import Json, finite

# The first cell of a line that a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FIRST = ("trial", "status", "best_reported", "iterations")


def table_json(lines: Sequence[TrialEntry], mode: Mode) -> Json:
    columns = trial_columns(lines)
    shown = {name: values for name, values in columns.items() if name not in {"error", "checkpoint"}}
    used = {name: values for name, values in shown.items() if any(value is not None for value in values)}
    used = dict(sorted(used.items(), key=lambda column: _place(column[0])))
    rows = [list(row) for row in zip(*used.values(), strict=True)]
    return {
        "columns": [_heading(name) for name in used],
        "keys": list(used),
        "rows": [finite(row) for row in rows],
        "rises": mode is Mode.MAX,
        "errors": {str(line.trial): line.error for line in lines if line.error},
    }


def _place(name: str) -> int:
    """What one looks for first: the result and the hyperparameters."""
    if name in _FIRST:
        return _FIRST.index(name)
    return len(_FIRST) + (0 if name.startswith(CONFIG) else 1)


def _heading(name: str) -> str:
    words = {"best_reported": "best seen", "best": "best saved", "started_s": "started", "ended_s": "ended"}
    words |= {"seconds": "time", "slot_seconds": "slot time"}
    return name.removeprefix(CONFIG) if name.startswith(CONFIG) else words.get(name, name.replace("_", " "))


def table_csv(lines: Sequence[TrialEntry]) -> str:
    """For a spreadsheet: no text in it is a formula."""
    columns = trial_columns(lines)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(map(_harmless, columns))
    for row in zip(*columns.values(), strict=True):
        writer.writerow(map(_harmless, row))
    return file.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
