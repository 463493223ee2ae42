"""`elastune report`: what is written where, and what is told about it."""

from __future__ import annotations

import builtins
import importlib.util
import json
import re
from pathlib import Path

import pytest

import elastune
from elastune.runs.campaign import Campaign
from tests.cli.commands import SMALL
from tests.cli.commands import elastune as run
from tests.documents import run_page
from tests.views.sketching import sketched

__all__ = ["sketched"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def single(place: Path) -> Campaign:
    return elastune.simulate_many(SMALL, folder=place / "elastune-runs")


@pytest.fixture(scope="module")
def pair(place: Path) -> Campaign:
    return elastune.simulate_many(SMALL, folder=place / "elastune-runs", policies=["asha"], seeds=2)


def test_the_paths_that_were_written_are_printed(single: Campaign, place: Path) -> None:
    assert single.folder is not None
    done = run("report", str(single.results[0].run), cwd=place)
    assert done.returncode == 0, done.stderr
    report = single.folder.report.relative_to(place)
    names = ["index.html", "nodes.png", "gantt.png", "curves.png", "cost.png"]
    assert done.stdout.splitlines() == [str(report / name) for name in names]
    assert all((place / path).exists() for path in done.stdout.splitlines())


def test_a_folder_can_be_chosen_and_json_asked_for(single: Campaign, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "er"
    done = run("report", str(single.results[0].run), "--out", out, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["page"] == str(out / "index.html")
    assert data["pictures"]["gantt"] == str(out / "gantt.png")
    result = single.results[0].to_dict()
    assert {key: data[key] for key in ("run", "policy", "seed", "predicted", "actual", "best")} == {
        key: result[key] for key in ("run", "policy", "seed", "predicted", "actual", "best")
    }
    assert (data["keeps_deadline"], data["keeps_budget"]) == (True, None)


def test_a_folder_with_several_runs_is_compared_and_each_can_be_drawn(pair: Campaign, place: Path) -> None:
    assert pair.folder is not None
    whole = str(pair.folder.run)
    compared = run("report", whole, cwd=place)
    assert [Path(line).name for line in compared.stdout.splitlines()] == [
        "index.html", "comparison.png", "outcomes.png",
    ]  # fmt: skip
    page = (pair.folder.report / "index.html").read_text(encoding="utf-8")
    one = run("report", f"{whole}.2", "--json", cwd=place)
    data = json.loads(one.stdout)
    assert (data["run"], data["seed"]) == (f"{whole}.2", 1)
    assert place / data["page"] == pair.folder.report / f"{whole}.2" / "index.html"
    assert (pair.folder.report / "index.html").read_text(encoding="utf-8") == page


def test_runs_of_several_folders_go_beside_them(single: Campaign, pair: Campaign, place: Path) -> None:
    ids = [str(single.results[0].run), f"{pair.results[0].run}"]
    done = run("report", *ids, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    home = f"report-{ids[0]}-{ids[1].partition('.')[0]}"
    assert data["page"] == str(Path("elastune-runs") / home / "index.html")
    assert [policy["label"] for policy in data["policies"]] == ["rubberband", "asha"]
    assert run("runs", cwd=place).returncode == 0  # which is not disturbed by the new folder


def test_a_run_named_twice_is_one_run(single: Campaign, place: Path) -> None:
    name = str(single.results[0].run)
    data = json.loads(run("report", name, name[:4], "--json", cwd=place).stdout)
    assert data["run"] == name


@pytest.mark.parametrize(
    ("name", "said"),
    [("last", "there are no runs"), ("abc", "no run under"), ("nowhere/x.sqlite", "no run under")],
)
def test_a_run_that_is_not_there_is_exit_code_2(tmp_path: Path, name: str, said: str) -> None:
    done = run("report", name, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert json.loads(run("report", name, "--json", cwd=tmp_path).stdout)["error"] == "job"


def test_a_folder_that_cannot_be_written_is_told(single: Campaign, place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("report", str(single.results[0].run), "--out", tmp_path / "file", cwd=place)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "--out" in done.stderr


def test_without_matplotlib_it_is_told_what_to_install(
    single: Campaign, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "matplotlib" else find(name, *more)
    )
    done = run("report", str(single.results[0].run), cwd=place)
    assert done.returncode == 2
    assert "a report needs matplotlib: pip install" in done.stderr


def test_the_help_needs_no_matplotlib(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def no_matplotlib(name: str, *more: object) -> object:
        assert not name.startswith("matplotlib")
        return load(name, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    assert "RUN" in run("report", "--help", cwd=place).stdout


@pytest.mark.slow
def test_the_page_about_reports_shows_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it has changed for a good reason: python -m tests.documents docs/reports.md"""
    page = Path(__file__).parents[2] / "docs" / "reports.md"
    commands = list(run_page(page, tmp_path))
    assert len(commands) == 4
    for each in commands:
        assert each.shown == each.fitted(), each.command
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "example", "exec"), {})
    assert (tmp_path / "pictures" / "index.html").exists()
