"""What the page about adapters shows can be trained, paused and gone on with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.contract import marks_of
from tests.test_documents import ROOT
from tests.waiting import PATIENCE_S

PAGE = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```python (\w+)\n(.*?)```", PAGE, re.DOTALL))
CONFIGS = {
    "xgboost": {"eta": 0.2, "subsample": 0.7},
    "sklearn": {"alpha": 1e-4},
    "lightning": {"lr": 0.01},
    "keras": {"lr": 0.01},
    "transformers": {"lr": 0.003},
}
CHECK = """
import json, sys
from tests.adapters.contract import train
from elastune.training import load
user, config = load("mine.py:train"), json.loads(sys.argv[1])
rows, end = train(user, config, 1, 3)
again, same = train(user, config, 3, 3, train(user, config, 1, 2)[1])
assert again == rows[2:] and same == end
print(json.dumps(rows[-1]))
"""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("xgboost", "sklearn") else marks_of(name)) for name in CONFIGS],
)
def test_the_example_of_each_framework_is_a_trainable(name: str, tmp_path: Path) -> None:
    """In a process of its own: each is written as a file of its own."""
    (tmp_path / "mine.py").write_text(EXAMPLES[name], encoding="utf-8")
    path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK, json.dumps(CONFIGS[name])],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    documented = re.findall(r"`(\w+)`", PAGE)
    assert any(metric in documented for metric in row)


def test_every_framework_has_an_example() -> None:
    assert set(EXAMPLES) == set(CONFIGS)
