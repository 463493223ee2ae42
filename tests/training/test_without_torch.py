"""Who does not use torch does not pay for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_S

SKLEARN = """
import sys
import numpy as np
from sklearn.linear_model import SGDClassifier
from elastune.checkpoints import decode, encode
from elastune.training import Solo, make_worker, open_recipe

class Linear:
    most_slots = 1

    def setup(self, config, worker):
        self.worker = worker
        self.model = SGDClassifier(alpha=config["alpha"], random_state=worker.seed)
        self.x = np.random.default_rng(0).normal(size=(60, 4))
        self.y = (self.x[:, 0] > 0).astype(int)

    def step(self):
        for x, y in self.worker.batches((self.x, self.y), 16):
            self.model.partial_fit(x, y, classes=[0, 1])
        return self.model.score(self.x, self.y)

    def save(self):
        return {"coef": self.model.coef_, "intercept": self.model.intercept_, "t": self.model.t_}

    def load(self, state):
        self.model.partial_fit(self.x[:2], self.y[:2], classes=[0, 1])
        self.model.coef_, self.model.intercept_, self.model.t_ = state["coef"], state["intercept"], state["t"]

def train(first, last, state):
    worker = make_worker(Solo(), seed=1, threads=1)
    training = open_recipe(Linear, name="linear", metric="accuracy").start({"alpha": 1e-4}, worker, state)
    for worker.iteration in range(first, last + 1):
        row = training.step()
    return row["accuracy"], decode(encode(training.save()))

accuracy, state = train(1, 4, None)
_, half = train(1, 2, None)
again, resumed = train(3, 4, half)
assert accuracy == again > 0.8, (accuracy, again)
assert (resumed["coef"] == state["coef"]).all() and (resumed["intercept"] == state["intercept"]).all()
print([name for name in ("torch", "ray", "optuna", "pydantic", "fsspec") if name in sys.modules])
"""

IMPORTS = """
import sys
import elastune.training, elastune.checkpoints
print([name for name in ("torch", "ray", "optuna", "pydantic", "fsspec", "sklearn") if name in sys.modules])
"""


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_importing_the_rooms_imports_nothing_heavy(tmp_path: Path) -> None:
    assert run(IMPORTS, tmp_path) == "[]"


def test_scikit_learn_trains_pauses_and_goes_on_without_torch(tmp_path: Path) -> None:
    assert run(SKLEARN, tmp_path) == "[]"
