"""TensorBoard: one folder per trial with its scalars and, for the HParams tab, its hyperparameters.

Uses the parts of the `tensorboard` package that need neither TensorFlow nor torch. Its own writer has a
thread per file, too many for hundreds of trials; here a file is open only while it is written.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastune.exports.files import RunHead, RunNews, require
from elastune.history.trials import RowEntry, TrialEntry, as_float
from elastune.model.configuration import flattened

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event


# TensorBoard looks for `tfevents` in a name; the suffix marks the files of this writer.
_OURS = ".elastune"
_FILES = f"events.out.tfevents.*{_OURS}"


class TensorBoardWriter:
    """Replaces what an earlier writer wrote into the same folder; leaves other files alone."""

    def __init__(self, folder: Path, head: RunHead) -> None:
        require("tensorboard", extra="tensorboard", what="TensorBoard")
        self._folder = folder
        self._head = head
        self._statuses: dict[int, str] = {}  # the last one written, by trial
        for path in folder.glob(f"trial-*/{_FILES}"):
            path.unlink()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def where(self) -> str:
        return str(self._folder)

    def update(self, news: RunNews) -> None:
        events: dict[int, list[Event]] = defaultdict(list)
        for line in news.trials:
            if line.trial not in self._statuses:
                self._statuses[line.trial] = ""
                events[line.trial].append(self._started(line))
        for row in news.rows:
            events[row.trial].extend(self._scalars(row))
        for line in news.trials:
            if line.is_over and self._statuses[line.trial] != line.status:
                self._statuses[line.trial] = line.status
                events[line.trial].append(self._ended(line))
        for trial, listed in events.items():
            self._write(trial, listed)

    def close(self) -> None:
        """Nothing is held open."""

    def _scalars(self, row: RowEntry) -> Iterator[Event]:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415

        values = [Summary.Value(tag=name, simple_value=as_float(each)) for name, each in row.metrics.items()]
        if values:
            at_s = self._head.wall_s(row.at_s)
            yield Event(wall_time=at_s, step=row.iteration, summary=Summary(value=values))

    def _started(self, line: TrialEntry) -> Event:
        from tensorboard.plugins.hparams import metadata, plugin_data_pb2  # noqa: PLC0415

        info = plugin_data_pb2.SessionStartInfo(
            group_name=_name(line.trial), start_time_secs=self._head.wall_s(line.started_s or 0.0)
        )
        for name, value in flattened(line.config).items():
            if isinstance(value, bool):
                info.hparams[name].bool_value = value
            elif isinstance(value, int | float):
                info.hparams[name].number_value = as_float(value)
            else:
                info.hparams[name].string_value = str(value)
        data = plugin_data_pb2.HParamsPluginData(session_start_info=info)
        return self._hparams(metadata.SESSION_START_INFO_TAG, data, line.started_s)

    def _ended(self, line: TrialEntry) -> Event:
        from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2  # noqa: PLC0415

        status = api_pb2.STATUS_FAILURE if line.status == "failed" else api_pb2.STATUS_SUCCESS
        at_s = self._head.wall_s(line.ended_s or 0.0)
        info = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=at_s)
        data = plugin_data_pb2.HParamsPluginData(session_end_info=info)
        return self._hparams(metadata.SESSION_END_INFO_TAG, data, line.ended_s)

    def _hparams(self, tag: str, data: Any, at_s: float | None) -> Event:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.plugins.hparams import metadata  # noqa: PLC0415

        about = metadata.create_summary_metadata(data)
        value = Summary.Value(tag=tag, metadata=about, tensor=metadata.NULL_TENSOR)
        return Event(wall_time=self._head.wall_s(at_s or 0.0), summary=Summary(value=[value]))

    def _write(self, trial: int, events: Sequence[Event]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

        folder = self._folder / _name(trial)
        folder.mkdir(exist_ok=True)
        path = folder / f"events.out.tfevents.{int(self._head.wall_s(0.0))}{_OURS}"
        records = io.BytesIO()
        writer = RecordWriter(records)
        if not path.exists():
            version = Event(wall_time=self._head.wall_s(0.0), file_version="brain.Event:2")
            writer.write(version.SerializeToString())
        for event in events:
            writer.write(event.SerializeToString())
        with path.open("ab") as file:
            file.write(records.getvalue())


def _name(trial: int) -> str:
    return f"trial-{trial:05d}"
