"""Reports: pages that need nothing but themselves, true numbers, and no tag that a run wrote."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.api.reporting import Report
from elastune.core.trials import Activity
from elastune.journal.run_folders import RunFolder, find_runs
from elastune.runs.campaign import Campaign
from elastune.runs.comparison import compare, mean_of
from elastune.runs.reading import NodeCount, RunReport, node_counts, planned_money, planned_nodes, remember
from elastune.views.figures.comparison import best_over_time
from elastune.views.figures.figure_style import time_axis
from elastune.views.figures.gantt_layout import lay_out
from elastune.views.html.markup import Markup, tag
from tests.cli.commands import SYNTHETIC
from tests.cli.test_runs_command import beginning_of
from tests.runs.checked_run import job_of
from tests.views.pages import Page
from tests.views.sketching import SKETCH, drawn, sketched, traced
from tests.views.test_run_reports import HYPERBAND

__all__ = ["drawn", "sketched", "traced"]

EVIL = "<script>alert(1)</script>"


def folder_of(campaign: Campaign) -> RunFolder:
    assert campaign.folder is not None
    return campaign.folder


def memoir_of(campaign: Campaign) -> RunReport:
    (found,) = find_runs(Path(), str(folder_of(campaign).path))
    return remember(found)


def page_of(campaign: Campaign) -> Page:
    """Drawn once: no test changes a campaign."""
    return _page_at(folder_of(campaign).path)


@functools.cache
def _page_at(folder: Path) -> Page:
    return Page(elastune.report(folder).page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def harsh(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return elastune.simulate_many(SYNTHETIC, folder=tmp_path_factory.mktemp("runs"), seed=2, faults="harsh")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    folder = tmp_path_factory.mktemp("runs")
    return elastune.simulate_many(SYNTHETIC, folder=folder, policies=["rubberband", "asha"], seeds=3)


@pytest.fixture(scope="module")
def pictured(harsh: Campaign, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """With real figures: what a module shares is made before `sketched` takes effect."""
    return elastune.report(folder_of(harsh).path, folder=tmp_path_factory.mktemp("pictured"))


def test_a_report_is_a_page_and_four_pictures(pictured: Report) -> None:
    assert pictured.page.name == "index.html"
    assert list(pictured.pictures) == ["nodes", "gantt", "curves", "cost"]
    drawn = [path.read_bytes() for path in pictured.pictures.values()]
    assert all(picture.startswith(SKETCH) and picture != SKETCH for picture in drawn)
    assert all(path.exists() for path in pictured.paths)


@pytest.fixture(scope="module")
def page(pictured: Report) -> Page:
    return Page(pictured.page.read_text(encoding="utf-8"))


def test_a_page_needs_nothing_but_itself_and_is_well_formed(page: Page) -> None:
    assert page.outside == []
    assert "http:" not in page.html
    assert "https:" not in page.html
    assert page.tags.count("svg") + page.tags.count("img") == 4
    assert page.tags.count("script") == 1
    assert not page.handlers
    assert len(page.ids) == len(set(page.ids))


def test_a_page_tells_what_status_tells(harsh: Campaign, page: Page) -> None:
    text = page.text
    standing = harsh.runs[0].standing
    assert standing.best is not None
    for told in (
        "stopped at the deadline",
        "seed 2",
        "harsh faults",
        "20m00s",
        f"{standing.best.metric:.5g}",
        f"trial {standing.best.trial}, after {standing.best.iterations} iterations",
        "58 stopped, 6 failed",
        "6 crashes",
        "an injected fault",
        "algorithm: sha",
    ):
        assert told in text, told
    for remark in standing.remarks:
        assert remark.text in text
    assert "14 more trials are not shown" in text


def test_forecasts_are_shown_beside_what_came(tmp_path: Path) -> None:
    job = job_of(
        search={"algorithm": "forecast"}, trainable="synthetic:hypersched", space=None, deadline=600.0
    )
    campaign = elastune.simulate_many(job, folder=tmp_path, seed=0)
    made = elastune.report(folder_of(campaign).path)
    assert "forecasts" in made.pictures
    text = Page(made.page.read_text(encoding="utf-8")).text
    assert "Forecasts against what came time leader iteration best score" in text


def test_the_same_run_gives_the_same_files(
    harsh: Campaign, pictured: Report, tmp_path: Path, drawn: None
) -> None:
    again = elastune.report(folder_of(harsh).path, folder=tmp_path)
    for one, other in zip(pictured.paths, again.paths, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_nothing_that_a_user_wrote_becomes_a_tag(tmp_path: Path, traced: None) -> None:
    def train(config: dict[str, Any], iteration: int) -> float:
        if config[f"x{EVIL}"] > 0.7:
            raise ValueError(f"Traceback {EVIL}\n$\\frac{{1}}{{0}}$ & {EVIL}")
        return float(config[f"x{EVIL}"])

    job = {
        **HYPERBAND,
        "trainable": train,
        "name": "a-job",
        "metric": f"score {EVIL} $\\alpha$",
        "mode": "max",
        "space": {f"x{EVIL}": {"float": [0, 1]}, "kind": {"choice": [f"</td>{EVIL}", "b"]}},
    }
    campaign = elastune.simulate_many(job, folder=tmp_path)
    page = page_of(campaign)
    assert page.tags.count("script") == 1
    assert EVIL not in page.html
    assert EVIL in page.text
    assert "Traceback" in page.text
    assert page.outside == []


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "a < b", Markup("<b>c</b>"), 3, None, class_='"x"') == (
        '<p class="&quot;x&quot;">a &lt; b<b>c</b>3</p>'
    )


@pytest.mark.parametrize("events", [1, 6, 250])
def test_a_run_that_was_cut_off_has_a_report(
    harsh: Campaign, tmp_path: Path, events: int, traced: None
) -> None:
    beginning_of(folder_of(harsh), events, tmp_path)
    made = elastune.report("last", runs_folder=tmp_path)
    page = Page(made.page.read_text(encoding="utf-8"))
    assert f"interrupted after {events} event" in page.text
    assert page.outside == []


def test_a_run_in_which_everything_fails_has_a_report(tmp_path: Path, traced: None) -> None:
    def train(config: dict[str, float], iteration: int) -> float:
        raise ValueError("always")

    job = {**HYPERBAND, "trainable": train, "metric": "accuracy", "space": {"x": {"float": [0, 1]}}}
    page = page_of(elastune.simulate_many(job, folder=tmp_path))
    assert "no trial has a checkpoint" in page.text
    assert "no trial has reported a value" in page.text
    assert "ValueError: always" in page.text


def test_brackets_and_metrics_to_minimise_are_drawn(tmp_path: Path, traced: None) -> None:
    def train(config: dict[str, float], iteration: int) -> float:
        return config["x"] + 1e6 * (config["x"] > 0.98) + 1.0 / iteration

    space = {"x": {"float": [0, 1]}}
    job = {**HYPERBAND, "trainable": train, "metric": "loss 📉", "mode": "min", "space": space}
    campaign = elastune.simulate_many(job, folder=tmp_path)
    page = page_of(campaign)
    assert "by bracket and stage" in page.text
    best = campaign.results[0].best
    assert best is not None
    assert f"{best.metric:.5g}" in page.text


def test_the_plan_is_drawn_as_it_was_quoted(harsh: Campaign) -> None:
    run_report = memoir_of(harsh)
    quote = elastune.plan(SYNTHETIC)
    steps = planned_nodes(run_report.plan)
    assert steps[-1][0] == pytest.approx(quote.jct_seconds)
    assert steps[-1][1] == 0
    assert max(nodes for _, nodes in steps) == quote.peak_nodes
    assert planned_money(run_report.plan)[-1] == pytest.approx((quote.jct_seconds, quote.cost))


def test_a_policy_without_a_plan_has_none(several: Campaign) -> None:
    runs = find_runs(Path(), str(folder_of(several).path))
    plans = {found.record.policy: bool(remember(found).plan) for found in runs[:2]}
    assert plans == {"rubberband": True, "asha": False}


def _changes(growth: Sequence[tuple[float, int]], counts: Sequence[NodeCount]) -> list[tuple[float, int]]:
    """Nodes held, also at the times when nothing happens but that one comes up."""
    return [
        (each.at_s, max((at_s, held) for at_s, held in growth if at_s <= each.at_s)[1]) for each in counts
    ]


def test_nodes_over_time_are_those_of_the_ledger(harsh: Campaign) -> None:
    counts = node_counts(memoir_of(harsh).history)
    assert [(each.at_s, each.held) for each in counts] == _changes(harsh.runs[0].standing.growth, counts)
    assert all(each.ready >= 0 and each.booting >= 0 for each in counts)
    assert counts[-1].held == 0


def test_lanes_are_shared_and_boxes_never_overlap(harsh: Campaign) -> None:
    run_report = memoir_of(harsh)
    layout = lay_out(run_report.history, 4)
    assert layout.left_out == 0
    assert len(layout.lanes) == max(each.held for each in node_counts(run_report.history))
    for lives in layout.lanes:
        assert all(a.until_s(1e9) <= b.born_s for a, b in itertools.pairwise(lives))
    rows: dict[int, list[tuple[float, float]]] = {}
    for box in layout.boxes:
        assert 0 <= box.top < box.top + box.slots <= layout.rows
        for row in range(box.top, box.top + box.slots):
            rows.setdefault(row, []).append((box.from_s, box.until_s))
    for spans in rows.values():
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(spans)))
    assert {box.activity for box in layout.boxes} >= {Activity.STARTING, Activity.TRAINING}


def test_nodes_for_which_there_is_no_room_are_counted(harsh: Campaign) -> None:
    history = memoir_of(harsh).history
    layout = lay_out(history, 4, most_rows=4)
    assert len(layout.lanes) == 1
    assert layout.left_out == len(history.nodes) - sum(map(len, layout.lanes))
    assert layout.left_out
    assert all(box.top + box.slots <= 4 for box in layout.boxes)


@pytest.mark.parametrize(
    ("end_s", "deadline_s", "unit", "until_s"),
    [
        (100.0, None, "seconds", 102.0),
        (100.0, 120.0, "seconds", 122.4),
        (1000.0, 1200.0, "minutes", 1224.0),
        (1000.0, 12000.0, "minutes", 1020.0),  # far off: told, not drawn
        (20_000.0, None, "hours", 20_400.0),
        (1_000_000.0, None, "days", 1_020_000.0),
        (0.0, 600.0, "seconds", 0.00102),
    ],
)
def test_time_has_the_unit_that_fits(
    end_s: float, deadline_s: float | None, unit: str, until_s: float
) -> None:
    time = time_axis(end_s, deadline_s)
    assert time.unit == unit
    assert time.until_s == pytest.approx(until_s)


def test_several_runs_are_compared_by_policy(several: Campaign, drawn: None) -> None:
    made = elastune.report(folder_of(several).path)
    assert list(made.pictures) == ["comparison", "outcomes"]
    page = Page(made.page.read_text(encoding="utf-8"))
    assert page.outside == []
    assert len(page.ids) == len(set(page.ids))
    assert "6 runs compared" in page.text
    for result in several.results:
        assert str(result.run) in page.text
    for policy in made.to_dict()["policies"]:  # type: ignore[attr-defined]
        own = [result for result in several.results if result.policy == policy["policy"]]
        mean = mean_of([result.actual.cost for result in own])
        assert policy["cost"] == {
            "mean": pytest.approx(mean.value),
            "standard_error": pytest.approx(mean.error),
        }
        assert policy["best"]["mean"] == pytest.approx(
            sum(result.best.metric for result in own if result.best) / len(own)
        )
        assert policy["kept_deadline"] == 1.0
        assert policy["kept_budget"] is None


def test_the_best_over_time_ends_at_the_mean_of_the_best(several: Campaign) -> None:
    comparison = compare(find_runs(Path(), str(folder_of(several).path)))
    for party in comparison.parties:
        moments = best_over_time(party)
        assert party.best is not None
        assert moments[-1].mean == pytest.approx(party.best.value)
        assert moments[-1].error == pytest.approx(party.best.error)
        assert all(a.mean <= b.mean + 1e-12 for a, b in itertools.pairwise(moments))


def test_runs_of_several_folders_are_told_apart(harsh: Campaign, several: Campaign, tmp_path: Path) -> None:
    made = elastune.report(folder_of(harsh).path, folder_of(several).path, folder=tmp_path)
    labels = [policy["label"] for policy in made.to_dict()["policies"]]  # type: ignore[attr-defined]
    ids = [folder_of(campaign).run for campaign in (harsh, several, several)]
    policies = ("rubberband", "rubberband", "asha")
    assert labels == [f"{policy} ({run})" for policy, run in zip(policies, ids, strict=True)]


def test_only_runs_with_the_same_metric_are_compared(harsh: Campaign, tmp_path: Path) -> None:
    def train(config: dict[str, float], iteration: int) -> float:
        return config["x"]

    job = {**HYPERBAND, "trainable": train, "metric": "accuracy", "space": {"x": {"float": [0, 1]}}}
    other = elastune.simulate_many(job, folder=tmp_path)
    with pytest.raises(elastune.JobError, match=r"has the metric accuracy .max., those before it have score"):
        elastune.report(folder_of(harsh).path, folder_of(other).path)


def test_runs_that_found_nothing_can_be_compared(tmp_path: Path) -> None:
    def train(config: dict[str, float], iteration: int) -> float:
        raise ValueError("always")

    job = {**HYPERBAND, "trainable": train, "metric": "accuracy", "space": {"x": {"float": [0, 1]}}}
    page = page_of(elastune.simulate_many(job, folder=tmp_path, seeds=2))
    assert "2 failed" in page.text


def test_slots_that_are_billed_are_drawn_as_shares(tmp_path: Path) -> None:
    job = {**HYPERBAND, "cluster": {**HYPERBAND["cluster"], "billing": "function"}}
    campaign = elastune.simulate_many(job, folder=tmp_path)
    assert memoir_of(campaign).history.usd == pytest.approx(campaign.results[0].actual.cost)
    assert "% of the slot time" in page_of(campaign).text
