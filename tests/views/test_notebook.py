"""A run in a notebook: one output, redrawn in place, that shows how the run ended."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import elastune
from elastune.api.results import TunedRun, tuned_run
from elastune.journal.run_folders import find_run
from elastune.views.live.notebook import NotebookScreen
from elastune.views.notebook import is_notebook
from tests.cli.commands import SMALL
from tests.cli.live_scenes import SHA, Stage
from tests.views.pages import Page
from tests.views.sketching import drawn, sketched

__all__ = ["drawn", "sketched"]


class Cell:
    """The output of a cell, and all that was ever in it."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, html: str) -> None:
        self.shown.append(html)

    @property
    def text(self) -> str:
        return Page(self.shown[-1]).text


def test_a_cell_has_one_output_that_tells_how_the_run_ended(tmp_path: Path) -> None:
    cells: list[Cell] = []

    def open_cell() -> Cell:
        cells.append(Cell())
        return cells[-1]

    stage = Stage(tmp_path, SHA)
    screen = NotebookScreen(open_cell, stage.clock)
    assert not cells
    screen.announce("starting <b>Ray</b>")
    (cell,) = cells
    assert cell.text == "starting <b>Ray</b>"
    screen.begin(stage.opening)
    stage.until(40.0)
    screen(stage.state)
    assert "stage 2 of 5" in cell.text
    drawn_before = len(cell.shown)
    screen(stage.state)  # nothing is redrawn twice in a second
    assert len(cell.shown) == drawn_before
    for _ in stage.steps():
        pass
    stage.now_s = 40.5  # however soon after
    screen(stage.state)
    assert cells == [cell]
    assert re.search(r"sphere \w+ complete", cell.text)
    assert "starting <b>Ray</b>" in cell.text


def test_outside_of_a_notebook_ipython_is_not_loaded() -> None:
    assert not is_notebook()
    assert "IPython" not in sys.modules


def test_a_run_is_shown_as_tables_and_figures_that_need_nothing_else(tmp_path: Path, drawn: None) -> None:
    campaign = elastune.simulate_many(SMALL, folder=tmp_path, seed=13, faults="harsh")
    standing = campaign.runs[0].standing
    assert standing.best is not None
    loaded = elastune.load_run("last", folder=tmp_path)
    page = Page(loaded._repr_html_())
    assert page.outside == []
    assert page.tags.count("img") == 2
    assert page.tags.count("script") == 0
    for told in ("complete", f"{standing.best.metric:.5g}", "Trials", str(loaded.path)):
        assert told in page.text, told
    for name in standing.best.config:
        assert name in page.text


def test_a_result_is_shown_like_its_run_and_without_its_folder_in_words(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(SMALL, folder=tmp_path, seed=2)
    found = find_run(tmp_path, "last")
    result = tuned_run(campaign.results[0], found)
    assert isinstance(result, TunedRun)
    assert result.to_dict() == campaign.results[0].to_dict()
    assert "<table" in result._repr_html_()
    loaded = elastune.load_run("last", folder=tmp_path)
    for shown in (result, loaded):
        printed: list[str] = []
        shown._repr_pretty_(SimpleNamespace(text=printed.append), cycle=False)
        assert printed == [str(shown)]
    found.journal.rename(tmp_path / "gone")
    assert Page(result._repr_html_()).text == str(result)
    assert "found" not in repr(result)


def test_what_costs_nothing_is_shown_without_dollars(tmp_path: Path) -> None:
    free = {**SHA, "cluster": {"nodes": 1, "slots_per_node": 2}, "deadline": "10m"}
    elastune.simulate_many(free, folder=tmp_path)
    html = elastune.load_run("last", folder=tmp_path)._repr_html_()
    assert "$" not in Page(html).text
    stage = Stage(tmp_path, free)
    cell = Cell()
    screen = NotebookScreen(lambda: cell, stage.clock)
    screen.begin(stage.opening)
    stage.until(40.0)
    screen(stage.state)
    assert "$" not in cell.text
