"""A trainable from an adapter in a real run, given in Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

SCRIPT = """
import xgboost
from sklearn.datasets import load_breast_cancer

import elastune
from elastune.adapters.xgboost import xgboost_trainable


def make(config):
    x, y = load_breast_cancer(return_X_y=True)
    params = {"objective": "binary:logistic", **config}
    return params, (x[:400], y[:400]), (x[400:], y[400:])


result = elastune.tune(
    xgboost_trainable(make, rounds=5),
    space={"eta": {"float": [0.01, 0.5], "log": True}, "subsample": {"float": [0.4, 1.0]}},
    metric="logloss",
    mode="min",
    search={"algorithm": "pbt", "trials": 4, "max_iterations": 8, "interval": 2},
    deadline="30m",
    profile={"iteration": "50ms"},
    cluster={"slots_per_node": 2, "nodes": 1, "price_per_hour": 1, "init": "5s"},
)
state = elastune.load_checkpoint(result.best.checkpoint)
booster = xgboost.Booster(model_file=bytearray(state["booster"]))
print(result.ending, booster.num_boosted_rounds() == 5 * result.best.iterations, result.best.metric < 0.3)
"""


@pytest.mark.slow
def test_a_population_of_boosted_trees_is_trained_for_real(tmp_path: Path) -> None:
    """Population based training moves states between trials, whose configs then decide."""
    (tmp_path / "mine.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "mine.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "complete True True"
