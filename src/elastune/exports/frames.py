"""Tables as pandas sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastune.exports.columns import Columns
from elastune.exports.missing import require

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = ("best_iteration", "slots", "parent")
_NUMBERS = ("final", "best", "started_s", "ended_s")


def to_frame(columns: Columns) -> pd.DataFrame:
    """A DataFrame. Whole numbers of which some are missing stay whole (`Int64`)."""
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
