"""`elastune export`: what is written where, and what is printed."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

import elastune
from elastune.journal.run_folders import RunFolder
from tests.cli.commands import SMALL
from tests.cli.commands import elastune as run
from tests.documents import run_page

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    campaign = elastune.simulate_many(SMALL, folder=tmp_path_factory.mktemp("place") / "elastune-runs")
    assert campaign.folder is not None
    return campaign.folder


def test_the_paths_that_were_written_are_printed(folder: RunFolder) -> None:
    place = folder.path.parent.parent
    done = run("export", "last", "--format", "csv", cwd=place)
    assert done.returncode == 0, done.stderr
    export = folder.path.relative_to(place) / "export"
    assert done.stdout.splitlines() == [str(export / "trials.csv"), str(export / "rows.csv")]
    again = run("export", "last", "--format", "csv", cwd=place)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert run("export", "last", "--format", "csv", "--force", cwd=place).returncode == 0


def test_a_folder_and_a_table_can_be_chosen_and_json_asked_for(folder: RunFolder, tmp_path: Path) -> None:
    place = folder.path.parent.parent
    options = ("--to", tmp_path / "deep" / "er", "--what", "rows", "--json")
    done = run("export", "last", "--format", "json", *options, cwd=place)
    assert json.loads(done.stdout) == {
        "format": "json",
        "written": [str(tmp_path / "deep" / "er" / "rows.json")],
    }


def test_what_is_wrong_is_reported_as_data_where_that_was_asked_for(folder: RunFolder) -> None:
    place = folder.path.parent.parent
    done = run("export", "last", "--format", "tensorbord", "--json", cwd=place)
    assert done.returncode == 2
    output = json.loads(done.stdout)
    assert output["error"] == "job"
    assert "did you mean 'tensorboard'?" in output["message"]


def test_a_run_of_several_has_a_folder_of_its_own(tmp_path: Path) -> None:
    elastune.simulate_many(SMALL, folder=tmp_path / "elastune-runs", policies=["asha"], seeds=2)
    (line,) = {each.folder.path for each in elastune.list_runs(tmp_path / "elastune-runs").runs}
    several = run("export", "last", "--format", "csv", cwd=tmp_path)
    assert several.returncode == 2
    assert "holds several runs; name one of" in several.stderr
    for part in (1, 2):
        name = f"{line.name[-6:]}.{part}"
        done = run("export", name, "--format", "tensorboard", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().endswith(f"tensorboard/{name}")


def test_the_page_about_results_shows_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it has changed for a good reason: python -m tests.documents docs/results.md"""
    commands = list(run_page(PAGE, tmp_path))
    assert len(commands) == 6
    for each in commands:
        assert each.shown == each.fitted(), each.command
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {})
    assert "finished" in printed.getvalue()
    columns = elastune.load_run("last").trials().columns
    for name in (name for name in columns if not name.startswith("config/")):
        assert f"`{name}`" in text, name
