"""What is imported before the slot processes of a node fork: what the user's code uses, and nothing else."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

from elastune.runs.code_bundle import CodeShipment, ship
from tests.runtime.real.runs import job_of

BODY = "\ndef train(config, worker, state):\n    yield {'score': 1.0}, dict\n"


def shipped(folder: Path, code: str) -> CodeShipment:
    (folder / "train.py").write_text(code + BODY)
    return ship(job_of(trainable=f"{folder / 'train.py'}:train"), "score")


@pytest.fixture(autouse=True)
def _busy_process() -> None:
    """This process has imported more than the user's code."""
    for library in ("scipy", "pandas"):
        pytest.importorskip(library)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import math", ()),
        ("import elastune", ()),
        ("import numpy.linalg", ("numpy",)),
        ("from pandas import DataFrame", ("pandas",)),
        ("from with_numpy import SIZE, mean", ("numpy",)),
        ("import functools, pandas\ndef other(config): ...\nany = functools.partial(other)", ("pandas",)),
    ],
)
def test_libraries_of_the_trainable_are_preloaded_and_no_others(
    tmp_path: Path, code: str, expected: tuple[str, ...]
) -> None:
    (tmp_path / "with_numpy.py").write_text("from numpy import mean\nSIZE = 3\n")
    sys.modules.pop("with_numpy", None)
    assert shipped(tmp_path, code).preload == expected


def test_of_an_object_without_a_module_of_its_own_all_libraries_are_preloaded(tmp_path: Path) -> None:
    code = "import functools\ndef work(size, config, worker, state):\n    yield {'score': size}, dict\n"
    (tmp_path / "bound.py").write_text(f"{code}train = functools.partial(work, 3)\n")
    shipment = ship(job_of(trainable=f"{tmp_path / 'bound.py'}:train"), "score")
    assert {"numpy", "scipy", "pandas"} <= set(shipment.preload)
    assert isinstance(shipment.recipe.user, functools.partial)
