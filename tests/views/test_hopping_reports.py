"""What people see of a run in which models hop: the page, the texts, the JSON."""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import elastune
from elastune.cli.app import app
from elastune.core.trials import Activity
from elastune.history.hopping import HoppingFigures
from elastune.runs.campaign import Campaign
from elastune.views.figures.gantt import draw_round
from elastune.views.figures.gantt_layout import lay_out
from elastune.views.live.panel import panel_lines
from elastune.views.run_tables import round_table
from elastune.views.table import terminal_table
from elastune.views.terminal.run import format_bytes, hopping_facts, hopping_parts
from elastune.views.terminal.simulation import render_campaign
from tests.history.test_hopping_history import LOSSES, PLAIN, RANDOM, SHA, VALIDATED, scenes, simulated
from tests.runs.checked_run import job_of
from tests.views.pages import Page
from tests.views.sketching import sketched, traced
from tests.views.test_report_page import folder_of, memoir_of, page_of

__all__ = ["sketched", "traced"]

runner = CliRunner()


def campaign_of(folder: Path, search: object, data: object, faults: str = "none") -> Campaign:
    job = job_of(execution="hopper", data=data, search=search, cluster__max_nodes=2)
    return elastune.simulate_many(job, folder=folder, faults=faults)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Nine models hop and are evaluated; the last ones train on all workers."""
    return campaign_of(tmp_path_factory.mktemp("runs"), SHA, VALIDATED)


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return campaign_of(tmp_path_factory.mktemp("runs"), RANDOM, PLAIN, "lost_per_hour=90")


def hopping_in(campaign: Campaign) -> HoppingFigures:
    found = campaign.runs[0].standing.hopping
    assert found is not None
    return found


def shown(*parts: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_page_has_the_visits_a_round_alone_and_the_figures(lossy: Campaign, traced: None) -> None:
    made = elastune.report(folder_of(lossy).path)
    assert list(made.pictures) == ["nodes", "gantt", "round", "curves", "cost"]
    page = Page(made.page.read_text(encoding="utf-8"))
    assert page.outside == []
    assert len(page.ids) == len(set(page.ids))
    assert "How the models hopped" in page.text
    assert "a bar one visit to a partition" in page.text
    assert "node lost" in page.text
    for name, told in hopping_facts(hopping_in(lossy)):
        assert f"{name} {told}" in page.text
    assert made.to_dict()["hopping"] == hopping_in(lossy).to_dict()


def test_what_is_evaluated_and_what_trains_together_is_in_the_key(together: Campaign) -> None:
    text = page_of(together).text
    assert "is evaluated" in text
    assert "saves" in text  # of the gangs of all workers
    assert "of the validation data" in text
    assert "one model on all workers" in text


def test_every_visit_has_a_bar_and_no_two_overlap(lossy: Campaign) -> None:
    run_report = memoir_of(lossy)
    layout = lay_out(run_report.history, 2)
    assert layout.hops
    visits = [
        gang for gang in run_report.history.gangs if gang.visit is not None and gang.until_s > gang.from_s
    ]
    assert len(layout.boxes) == len(visits)
    assert all(box.slots == 1 and box.activity is Activity.TRAINING for box in layout.boxes)
    by_row = sorted((box.top, box.from_s, box.until_s) for box in layout.boxes)
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in itertools.pairwise(by_row))


def test_a_gang_of_all_workers_is_as_high_as_they_are(together: Campaign) -> None:
    run_report = memoir_of(together)
    layout = lay_out(run_report.history, 2)
    assert max(box.slots for box in layout.boxes) > 1
    assert {box.evaluates for box in layout.boxes} == {False, True}


def test_reading_data_is_marked_where_it_took_time(lossy: Campaign) -> None:
    run_report = memoir_of(lossy)
    gangs = tuple(
        replace(gang, visit=replace(gang.visit, load_s=0.5)) if gang.visit is not None else gang
        for gang in run_report.history.gangs
    )
    read = replace(run_report, history=replace(run_report.history, gangs=gangs))
    assert all(box.loads_until_s == box.from_s + 0.5 for box in lay_out(read.history, 2).boxes)
    figure = draw_round(read)
    assert figure is not None
    assert "reads data" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_run_of_gangs_has_neither_rounds_nor_visits(tmp_path: Path) -> None:
    campaign = elastune.simulate_many(job_of(), folder=tmp_path)
    made = elastune.report(folder_of(campaign).path)
    assert list(made.pictures) == ["nodes", "gantt", "curves", "cost"]
    assert "hopping" not in made.to_dict()
    assert "hopping" not in campaign.to_dict()
    assert not list(hopping_parts(campaign.runs[0].standing))


def test_simulate_tells_visits_workers_hops_and_rounds(together: Campaign, lossy: Campaign) -> None:
    text = shown(render_campaign(together))
    for word in ("visits", "of the time for which they were up", "came from another worker", "Rounds"):
        assert word in text
    assert "together" in text
    assert "repeated after a loss or a crash" in shown(render_campaign(lossy))


def test_of_many_rounds_the_first_and_the_last_are_shown(together: Campaign) -> None:
    hopping = hopping_in(together)
    many = replace(hopping, rounds=hopping.rounds[:1] * 40)
    text = shown(terminal_table(round_table(many, 4, 8)))
    assert "28 of 40 left out" in text
    assert "   40 " in text


def test_sizes_are_told_beside_the_formula(together: Campaign) -> None:
    hopping = replace(hopping_in(together), moved_bytes=12_345_678, formula_bytes=2_000_000_000)
    told = dict(hopping_facts(replace(hopping, loads=8, load_s=2.0)))
    assert "12.3 MB in all; 2 GB if every visit were a hop" in told["hops"]
    assert told["data"] == "partitions read 8 times, in 2.0 s of the workers' time"
    assert [format_bytes(count) for count in (0, 999, 999.6, 1.5e15)] == ["0 B", "999 B", "1 kB", "1.5 PB"]


def test_status_and_simulate_have_the_same_figures_for_programs(lossy: Campaign) -> None:
    told = runner.invoke(app, ["status", str(folder_of(lossy).path), "--json"])
    assert told.exit_code == 0
    hopping = json.loads(told.stdout)["hopping"]
    assert hopping == lossy.to_dict()["hopping"] == json.loads(json.dumps(hopping_in(lossy).to_dict()))
    text = runner.invoke(app, ["status", str(folder_of(lossy).path)])
    assert "Rounds" in text.stdout


def test_the_screen_tells_the_epoch_who_trains_where_and_who_holds_what() -> None:
    seen = [
        snapshot for snapshot in scenes(simulated(SHA, VALIDATED, cluster__max_nodes=1)) if snapshot.rounds
    ]
    text = "\n".join(row.plain for row in panel_lines(seen[5], 120, 40))
    assert f"stage 1 of 3, {seen[5].rounds[0]}" in text
    assert "9: 9 train, 0 wait, 0 over" in text
    assert "trains on partition" in text
    assert "8 parts" in text


def test_the_screen_has_room_for_losses() -> None:
    seen = scenes(simulated(faults=LOSSES))
    for snapshot in seen[::7]:
        for width, height in ((60, 12), (80, 24), (160, 50)):
            assert len(panel_lines(snapshot, width, height)) <= height
