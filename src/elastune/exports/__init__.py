"""What a run found, for other tools: tables, files, TensorBoard and MLflow.

`lines` are the values, `columns` the tables, `files` CSV, JSON and Parquet, `frames` pandas. A `Sink` takes
what is new of a run; the same ones write a run that goes on and export one that is over.
"""

from elastune.exports.lines import News, RowLine, RunHead, TrialLine, without_lost
from elastune.exports.sink import Sink

__all__ = ["News", "RowLine", "RunHead", "Sink", "TrialLine", "without_lost"]
