"""CONTRIBUTING says where each kind of change goes. These tests walk its paths."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "elastune"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

# What has to be found in the files of a change, so that the table cannot point to the wrong place.
EVIDENCE = {
    "a policy": ("policies/registry.py", "make_policy"),
    "a provider": ("providers/registry.py", "load_provider"),
    "a command": ("cli/app.py", "app"),
    "a job key": ("job/job_keys.py", "JobKeys"),
    "a report column": ("views/run_tables.py", "stage_table"),
    "the checkpoint cadence": ("model/checkpoint_rule.py", "CheckpointRule"),
    "a billing rule": ("model/billing.py", "charged_s"),
    "an event": ("core/events.py", "AnyEvent"),
    "a sampler": ("job/sampling.py", "SAMPLERS"),
    "an adapter": ("adapters/sklearn.py", "sklearn_trainable"),
    "a number in the live view": ("views/live/snapshot.py", "Snapshot"),
    "a retry rule": ("core/cluster_manager.py", "back_off"),
}


def rows(heading: str) -> dict[str, str]:
    """First and second cells of the table below a heading."""
    section = PAGE.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    cells = re.findall(r"^\| (?!-)(.+?) \| (.+) \|$", section, re.MULTILINE)
    return dict(cells[1:])


CHANGES = rows("Where a change goes")


def place_of(path: str) -> Path:
    return (ROOT if path.split("/", maxsplit=1)[0] in {"tests", "docs"} else SOURCE) / path


def test_the_twelve_changes_are_listed() -> None:
    assert CHANGES.keys() == EVIDENCE.keys()


@pytest.mark.parametrize("change", CHANGES)
def test_every_path_of_a_change_exists(change: str) -> None:
    paths = re.findall(r"`([\w/]+(?:\.\w+)?)`", CHANGES[change])
    assert paths
    for path in paths:
        place = place_of(path)
        assert (place.parent if "NAME" in path else place).exists(), path


@pytest.mark.parametrize("change", EVIDENCE)
def test_what_a_change_is_about_lives_in_its_file(change: str) -> None:
    path, name = EVIDENCE[change]
    if path not in CHANGES[change]:
        assert f"{Path(path).parent}/NAME.py" in CHANGES[change]
    module = "elastune." + path.removesuffix(".py").replace("/", ".")
    assert hasattr(importlib.import_module(module), name)


def test_the_table_of_packages_has_the_layers_that_are_enforced() -> None:
    listed = [name for cell in rows("Where things are") for name in re.findall(r"`(\w+)`", cell)]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(listed) == packages
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    level = {
        name.strip().removeprefix("elastune."): number
        for number, layer in enumerate(layers)
        for name in layer.split("|")
    }
    assert packages <= level.keys()
    assert [level[name] for name in listed] == sorted(level[name] for name in listed)
