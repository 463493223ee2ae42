"""What Ray Tune trains. Its actors import this module: nothing of ours, or they would wait for it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ray import tune  # type: ignore[import-not-found,unused-ignore]


class Tick(tune.Trainable):  # type: ignore[misc,unused-ignore]
    """As `trainables.tick`; may be used again for another trial."""

    def setup(self, config: dict[str, Any]) -> None:
        self.begin(config)

    def reset_config(self, config: dict[str, Any]) -> bool:
        self.begin(config)
        return True

    def begin(self, config: dict[str, Any]) -> None:
        self.x, self.left, self.sleep_s = config["x"], config["iterations"], config.get("sleep", 0.0)
        self.gate = config.get("gate")

    def step(self) -> dict[str, Any]:
        if self.gate:
            pass_gate(*self.gate)
            self.gate = None
        if self.sleep_s:
            time.sleep(self.sleep_s)
        self.left -= 1
        return {"score": self.x, "at": time.monotonic(), "done": self.left <= 0}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        return {"left": self.left}

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        if checkpoint:
            self.left = checkpoint["left"]


def tick(config: dict[str, Any]) -> None:
    if config.get("gate"):
        pass_gate(*config["gate"])
    for _ in range(config["iterations"]):
        tune.report({"score": config["x"], "at": time.monotonic()})


def pass_gate(folder: str, trials: int) -> None:
    """Wait until so many trials are here: actors start one by one, and all are to report at once."""
    (Path(folder) / str(os.getpid())).touch()
    while len(os.listdir(folder)) < trials:  # noqa: PTH208  as often as it takes
        time.sleep(0.05)
