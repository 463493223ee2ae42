"""A trial of Ray Tune in its process, function or class: its folder, random numbers, results and end."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from elastune.adapters.adapted_trainable import Adapter
from elastune.adapters.ray_tune import session as sessions
from elastune.adapters.suspended import RandomState
from elastune.errors import JobError
from elastune.training.worker import Worker

Stop: TypeAlias = Mapping[str, float] | Callable[[str, Mapping[str, Any]], bool] | None
"""When a trial ends: results that it reaches, or a function of its id and its result."""

_SECONDS = "time_total_s"
_CHDIR = "RAY_CHDIR_TO_TRIAL_DIR"


class RayTrial(Adapter):
    """What both kinds have: the folder of the trial, its results, and when it ends."""

    def begin(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.worker = worker
        self.given = config
        self.config = self.options["layout"].nested(config)
        self.home = Path(tempfile.mkdtemp(prefix="elastune-trial-"))
        self.folder = self.home / self.options["name"]
        self.folder.mkdir()
        self.seconds = 0.0
        self.is_done = False
        self.random = RandomState.now()
        self.before: Path | None = None

    @property
    def trial_info(self) -> sessions.TuneSession:
        resources = {"CPU": 1.0} if self.worker.device == "cpu" else {"CPU": 1.0, "GPU": 1.0}
        return sessions.TuneSession(
            name=self.options["name"],
            trial=self.worker.trial,
            folder=self.folder,
            resources=resources,
        )

    @property
    def counts_time(self) -> bool:
        """Whether its end depends on its time; else states are the same however long training took."""
        return not isinstance(self.options["stop"], Mapping | None) or _SECONDS in (
            self.options["stop"] or ()
        )

    @contextlib.contextmanager
    def as_its_own(self) -> Iterator[None]:
        """With its own random numbers and, as in Ray Tune, in its own folder."""
        outside = Path.cwd()
        self.random.restore()
        moves = os.environ.get(_CHDIR, "1") != "0"
        began = time.monotonic()
        try:
            if moves:
                os.chdir(self.before or self.folder)
            yield
        finally:
            self.seconds += time.monotonic() - began
            self.random = RandomState.now()
            if moves:
                self.before = _working_folder()
                os.chdir(outside)

    def result(self, metrics: Mapping[str, Any], iteration: int) -> dict[str, Any]:
        """The metrics by flat names; notes whether the trial ends with them."""
        row = dict(_flat(metrics))
        seen_by_stop = {"training_iteration": iteration, _SECONDS: self.seconds, **row}
        trial = f"{self.worker.trial:05d}"
        self.is_done = bool(row.pop("done", False)) or _is_reached(self.options["stop"], trial, seen_by_stop)
        return row

    def close(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)


def _working_folder() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the script has removed it
        return None


def _flat(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`{"eval": {"loss": 1}}` is `eval/loss`, as in Ray Tune."""
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", value


def _is_reached(stop: Stop, trial: str, result: Mapping[str, Any]) -> bool:
    if stop is None:
        return False
    if not isinstance(stop, Mapping):
        return bool(stop(trial, result))
    for name, least in stop.items():
        if name not in result:
            raise JobError(f"stop has {name!r}, which is not reported; expected one of: {', '.join(result)}")
        if result[name] >= least:
            return True
    return False
