"""Weights & Biases: one W&B run per trial, in a group for the tuning run.

The id of a W&B run comes from the run and the trial. Online, a resumed run or a second export continues it;
offline, its files are replaced. The W&B run of the best trial so far stays open, to be marked at the end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from elastune.exports.files import RunHead, RunNews, require
from elastune.exports.writer_process import WriterProcess
from elastune.history.trials import RowEntry, TrialEntry

if TYPE_CHECKING:
    from wandb import Run


_PREFIX = "elastune/"
BEST = "best"
"""The tag of the best trial."""


def open_wandb(
    head: RunHead,
    folder: Path,
    *,
    project: str | None = None,
    entity: str | None = None,
    mode: str | None = None,
) -> WriterProcess:
    """A writer in a process of its own. Its files go to `wandb` in the folder. By default, the project is the
    name of the run; entity and mode are W&B's own (WANDB_MODE)."""
    require("wandb", extra="wandb", what="W&B")
    place = partial(WandbWriter, head, folder, project=project or head.name, entity=entity, mode=mode)
    return WriterProcess(place, where=f"W&B group {group_of(head)} in project {project or head.name}")


def group_of(head: RunHead) -> str:
    return f"{head.name}-{head.run}"


class WandbWriter:
    def __init__(
        self, head: RunHead, folder: Path, *, project: str, entity: str | None, mode: str | None
    ) -> None:
        require("wandb", extra="wandb", what="W&B")
        # Elastune promises to send no usage statistics; to send W&B's error reports, set it to true.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ["WANDB_SILENT"] = "true"
        import wandb  # noqa: PLC0415

        self._wandb = wandb
        self._head, self._folder = head, folder.absolute()
        self._named = {"project": project, "entity": entity}
        self._settings = wandb.Settings(
            # Nothing of this process, which does not train: neither its output, nor its machine and code.
            console="off", silent=True, save_code=False, disable_git=True, x_disable_stats=True,
            x_disable_meta=True, x_disable_machine_info=True, x_save_requirements=False,
            **({} if mode is None else {"mode": mode}),
        )  # fmt: skip
        self._offline = wandb.setup(self._settings).settings.mode != "online"
        self._open: dict[int, Run] = {}
        self._codes: dict[int, int] = {}  # exit codes of the trials that are over
        self._best: int | None = None
        if self._offline:
            for path in (self._folder / "wandb").glob(f"offline-run-*-{self._id_of('*')}"):
                shutil.rmtree(path, ignore_errors=True)

    @property
    def where(self) -> str:
        return f"W&B group {group_of(self._head)} in project {self._named['project']}"

    def update(self, news: RunNews) -> None:
        for line in news.trials:
            if line.trial not in self._open and line.trial not in self._codes:
                self._open[line.trial] = self._begin(line)
        for row in news.rows:
            if row.trial in self._open:
                self._log(self._open[row.trial], row)
        self._best = self._best if news.best is None else news.best.trial
        for line in news.trials:
            if line.trial in self._open:
                self._describe(self._open[line.trial], line)
        is_over = news.ending is not None
        if is_over and self._best in self._open:
            run = self._open[self._best]
            run.tags = (*(run.tags or ()), BEST)
            run.summary[f"{_PREFIX}is_best"] = True
        for number in [
            each for each in self._open if each in self._codes and (is_over or each != self._best)
        ]:
            self._finish(number)

    def close(self) -> None:
        """Trials that are not over go on when the run is resumed."""
        for number in list(self._open):
            self._finish(number)
        self._wandb.teardown()

    def _id_of(self, trial: str) -> str:
        head = self._head
        return f"{head.run.replace('.', '-')}-{head.created_utc:%Y%m%dT%H%M%S}-{trial}"

    def _begin(self, line: TrialEntry) -> Run:
        head = self._head
        run = self._wandb.init(
            **self._named,
            group=group_of(head),
            id=self._id_of(f"{line.trial:05d}"),
            name=f"trial-{line.trial:05d}",
            job_type="trial",
            config=_plain(line.config),
            tags=[head.policy],
            dir=str(self._folder),
            reinit="create_new",
            settings=self._settings,
            **({} if self._offline else {"resume": "allow"}),
        )
        about = {"run": head.run, "trial": line.trial, "policy": head.policy, "seed": head.seed}
        run.config.update({f"{_PREFIX}{name}": value for name, value in about.items()}, allow_val_change=True)
        run.define_metric(head.metric, summary=head.mode.value)
        return run

    def _log(self, run: Run, row: RowEntry) -> None:
        """A row that an earlier writer has logged is dropped by its step."""
        if row.iteration >= run.starting_step:
            metrics = {_key(name): value for name, value in row.metrics.items()}
            run.log({**metrics, f"{_PREFIX}seconds": row.at_s}, step=row.iteration)

    def _describe(self, run: Run, line: TrialEntry) -> None:
        about = {
            "status": line.status,
            "iterations": line.iterations,
            "best": line.best,
            "best_iteration": line.best_iteration,
            "parent": line.parent,
            "error": line.error,
            "checkpoint": line.checkpoint,
        }
        run.summary.update({f"{_PREFIX}{name}": value for name, value in about.items() if value is not None})
        if line.is_over:
            self._codes[line.trial] = int(line.status == "failed")

    def _finish(self, trial: int) -> None:
        self._open.pop(trial).finish(exit_code=self._codes.get(trial, 0))


def _key(name: str) -> str:
    """W&B keeps names with an underscore first for itself."""
    return f"metric/{name}" if name.startswith("_") else name


def _plain(config: Mapping[str, object]) -> dict[str, object]:
    """Values that JSON has; others as text."""
    plain = (bool, int, float, str, list, dict, type(None))
    return {name: value if isinstance(value, plain) else str(value) for name, value in config.items()}
