"""Adapters against the libraries themselves, and on real clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from tests.adapters import optuna_examples
from tests.adapters.in_process import carry_out
from tests.adapters.ray_examples import EXAMPLES
from tests.test_documents import ROOT
from tests.waiting import PATIENCE_S

# Ray's own workers are so nice (15) that beside other busy programs they take minutes to start; and they
# listen on the address of the machine, which a container may not reach.
CALM_RAY = {"RAY_worker_niceness": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
NATIVE = """
import json, tempfile
import numpy as np, ray
from ray import tune
from tests.adapters.ray_examples import EXAMPLES

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
found = {}
for name, example in EXAMPLES.items():
    np.random.seed(example.seed)
    options = example.options
    options["run_config"].storage_path = tempfile.mkdtemp()
    options["tune_config"].reuse_actors = not isinstance(example.trainable, type)  # classes: `reset_config`
    grid = tune.Tuner(example.trainable, **options).fit()
    best = grid.get_best_result()
    found[name] = [best.metrics[example.metric], sorted(each.metrics[example.metric] for each in grid)]
print("FOUND", json.dumps(found))
"""
TUNER = """
import json
from pathlib import Path

import numpy as np
from elastune.adapters import ray_tune as tune
from tests.adapters.ray_examples import EXAMPLES

if __name__ == "__main__":
    example = EXAMPLES["torch with checkpoints"]
    np.random.seed(example.seed)
    grid = tune.Tuner(example.trainable, **example.options).fit(profile={"iteration": "50ms"})
    best = grid.get_best_result()
    files = [each.name for each in Path(best.checkpoint.path).iterdir()]
    values = sorted(each.metrics[example.metric] for each in grid)
    print("FOUND", json.dumps({"values": values, "files": files, "ending": grid.run.ending.value}))
"""
STUDY = """
import json

from elastune.adapters import optuna
from tests.adapters.optuna_examples import EXAMPLES

if __name__ == "__main__":
    example = EXAMPLES["sklearn pruning"]
    study = optuna.create_study(sampler=example.sampler(), pruner=optuna.pruners.NopPruner())
    study.optimize(example.objective, n_trials=example.trials, n_jobs=1, profile={"iteration": "20ms"})
    print("FOUND", json.dumps([trial.value for trial in study.trials]))
"""


def found_by(script: str, folder: Path) -> Any:
    (folder / "script.py").write_text(script, encoding="utf-8")
    path = f"{ROOT / 'src'}:{ROOT}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py"],
        cwd=folder,
        env={**os.environ, **CALM_RAY, "PYTHONPATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=8 * PATIENCE_S,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr
    return json.loads(lines[0].removeprefix("FOUND "))


@pytest.mark.slow
def test_ray_tune_itself_has_the_same_results(tmp_path: Path) -> None:
    theirs = found_by(NATIVE, tmp_path)
    for name, example in EXAMPLES.items():
        np.random.seed(example.seed)  # noqa: NPY002  Ray Tune's own
        grid = example.tuner(carry_out(tmp_path / name)).fit(folder=tmp_path / name)
        best, values = theirs[name]
        assert grid.get_best_result().metrics[example.metric] == pytest.approx(best), name
        assert sorted(each.metrics[example.metric] for each in grid) == pytest.approx(values), name


@pytest.mark.slow
def test_a_tuner_trains_on_a_real_cluster(tmp_path: Path) -> None:
    ours = found_by(TUNER, tmp_path)
    assert ours["ending"] == "complete"
    assert ours["files"] == ["checkpoint.pt"]
    example = EXAMPLES["torch with checkpoints"]
    np.random.seed(example.seed)  # noqa: NPY002
    grid = example.tuner(carry_out(tmp_path)).fit(folder=tmp_path)
    values = sorted(each.metrics[example.metric] for each in grid)
    assert ours["values"] == pytest.approx(values)


@pytest.mark.slow
def test_a_study_trains_on_a_real_cluster(tmp_path: Path) -> None:
    example = optuna_examples.EXAMPLES["sklearn pruning"]
    theirs = optuna.create_study(sampler=example.sampler(), pruner=optuna.pruners.NopPruner())
    theirs.optimize(example.objective, n_trials=example.trials)
    assert found_by(STUDY, tmp_path) == [trial.value for trial in theirs.trials]
