"""The checkpoint of a trial as a model that can be loaded and exported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastune.checkpoints.store import load_checkpoint
from elastune.errors import JobError
from elastune.exports.model_file import is_model_file, part_of, write_model
from elastune.history.result import BestTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedModel(BestTrial):
    """`trusted`: objects that this process itself had pickled may be loaded."""

    trusted: bool = False

    def load(self, *, pickles: bool | None = None) -> Any:
        """The state as saved by the trainable. `pickles` allows pickled objects, which run code."""
        if self.checkpoint is None:
            raise JobError(self._absence())
        return load_checkpoint(self.checkpoint, pickles=self.trusted if pickles is None else pickles)

    def export(
        self,
        to: str | Path,
        *,
        part: str | None = None,
        force: bool = False,
        pickles: bool | None = None,
    ) -> Path:
        """Write the model to a file that other programs open: `.pt` or `.pth` (for `torch.load`),
        `.safetensors`, or `.pkl`.

        `part` is a key of the state, such as `model`, if only that is wanted; dots lead further inside. An
        existing file is replaced only with `force`.
        """
        path = Path(to)
        if not is_model_file(path):
            raise JobError(f"{to} is not a model file; expected a name such as model.pt or model.safetensors")
        state = part_of(self.load(pickles=pickles), part)
        about = {"elastune.trial": str(self.trial), "elastune.iterations": str(self.iterations)}
        return write_model(state, path, about={**about, "elastune.metric": repr(self.metric)}, force=force)


def saved_model(best: BestTrial, path: str, *, trusted: bool = False) -> SavedModel:
    return SavedModel(
        trial=best.trial,
        config=best.config,
        metric=best.metric,
        iterations=best.iterations,
        checkpoint=path,
        trusted=trusted,
    )
