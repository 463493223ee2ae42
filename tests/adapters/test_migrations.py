"""The pages for those who come from Ray Tune or Optuna: scripts before and after, few lines apart."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_documents import ROOT
from tests.waiting import PATIENCE_S

PAGES = ("from-ray-tune.md", "from-optuna.md")
MOST_LINES = 5


def scripts_of(page: str) -> tuple[str, str, int]:
    """Before, after, and how many lines the page says have changed."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    before = re.findall(r"```python before\.py\n(.*?)```", text, re.DOTALL)[0]
    diff = re.findall(r"```diff\n(.*?)```", text, re.DOTALL)[0].splitlines()
    after = before
    for old, new in zip(diff[::2], diff[1::2], strict=True):
        assert (old[0], new[0]) == ("-", "+")
        assert after.count(f"{old[1:]}\n") == 1
        after = after.replace(f"{old[1:]}\n", f"{new[1:]}\n")
    said = re.findall(r"\*\*(\d+) changed lines\.\*\*", text)
    return before, after, int(said[0])


@pytest.mark.parametrize("page", PAGES)
def test_few_lines_change_and_the_page_says_how_many(page: str) -> None:
    before, after, said = scripts_of(page)
    changed = [
        pair for pair in zip(before.splitlines(), after.splitlines(), strict=True) if len(set(pair)) > 1
    ]
    assert len(changed) == said <= MOST_LINES
    compile(after, "after.py", "exec")


def run(script: str, folder: Path) -> str:
    (folder / "script.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_script_for_ray_tune_finds_the_same_model_on_elastune(tmp_path: Path) -> None:
    before, after, _ = scripts_of("from-ray-tune.md")
    theirs, ours = run(before, tmp_path), run(after, tmp_path)
    assert sorted(re.findall(r"[\d.]+", ours)) == sorted(re.findall(r"[\d.]+", theirs))


@pytest.mark.slow
def test_the_script_for_optuna_finds_a_good_model_on_elastune(tmp_path: Path) -> None:
    """Not the same: its pruner is ours, and trials train side by side."""
    before, after, _ = scripts_of("from-optuna.md")
    theirs, ours = run(before, tmp_path), run(after, tmp_path)
    assert "n_layers" in ours
    assert float(ours.split()[-1]) > float(theirs.split()[-1]) - 0.1
