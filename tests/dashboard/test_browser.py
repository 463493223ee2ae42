"""The dashboard in a real browser: every tab of every kind of run, and a real run that is steered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from elastune.core import events as ev
from elastune.dashboard.run_data import RunData
from elastune.journal.codec import event_of
from elastune.journal.run_folders import find_run
from elastune.journal.store import Journal
from elastune.views.page import kept_pages
from tests.dashboard.recorded import EVIL, Recorded
from tests.dashboard.sites import Served, served
from tests.dashboard.test_asking import JOB
from tests.runtime.real.drivers import Driver
from tests.runtime.real.runs import job_of as real_job
from tests.runtime.real.runs import our_processes
from tests.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytest.importorskip("playwright", reason="playwright is not installed")
from tests.dashboard.browsing import Tab, chromium, tab

pytestmark = [
    pytest.mark.xdist_group("dashboard"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
# What a tab is made of; a run without any value has no plots of what was learned.
TABS = {
    "overview": ".cards .card",
    "curves": ".js-plotly-plot",
    "slots": ".js-plotly-plot",
    "trials": "tbody tr",
    "learned": ".js-plotly-plot, p",
    "nodes": "tbody tr",
    "job": "pre",
}
KINDS = ("rubberband", "pbt", "hopping", "failed", "suspended")
"""With stages, without, with copied trials, and what is special otherwise; "evil" has a test of its own."""
SIMILAR = (
    "hypersched",
    "forecast",
    "seer",
    "e-hyperband",
    "e-grid",
    "bohb",
    "random",
    "grid",
    "old",
    "asha",
    "died",
)
"""Their pages are made of the same parts; what the server sends for each is in `test_pages`."""
ASHA = {"algorithm": "asha", "trials": 4, "max_iterations": 9, "eta": 3, "max_slots_per_trial": 1}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def page(browser: Browser, dashboard: Served) -> Iterator[Tab]:
    with tab(browser, dashboard) as opened:
        yield opened


@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in SIMILAR)])
def test_every_tab_of_every_kind_of_run_is_drawn_without_an_error(
    kind: str, page: Tab, recorded: Recorded
) -> None:
    page.open(f"/runs/{recorded.runs[kind]}")
    page.page.wait_for_selector("#title .badge")
    words = {"failed": "failed", "suspended": "suspended", "died": "died"}
    if kind in words:
        assert words[kind] in page.page.inner_text("#title")
    for name, content in TABS.items():
        page.show(name, content)
    assert page.troubles == []


def test_no_kind_of_run_is_left_out(recorded: Recorded) -> None:
    assert {*KINDS, *SIMILAR, "evil"} == set(recorded.runs)


def test_what_users_wrote_is_shown_as_text_and_no_script_of_theirs_runs(
    page: Tab, recorded: Recorded
) -> None:
    run = recorded.runs["evil"]
    page.open("/")
    page.page.wait_for_selector("#runs tbody tr")
    assert EVIL in page.page.inner_text("#runs")
    page.open(f"/compare?runs={run}")
    page.page.wait_for_selector("#compare .js-plotly-plot")
    page.open(f"/runs/{run}")
    page.page.wait_for_selector("#title .badge")
    assert EVIL in page.page.inner_text("#title")
    for name, content in TABS.items():
        page.show(name, content)
        assert page.page.locator("main img").count() == 0, name
    page.show("curves", ".js-plotly-plot")
    page.page.hover("#curves .plot")  # the texts beside the pointer
    page.page.mouse.move(700, 500)
    assert page.page.locator("img").count() == 0
    assert page.troubles == []


def poisoned(value: object, key: str = "") -> object:
    """All texts of a page, and what should be the number of a trial, with markup."""
    match value:
        case dict():
            return {name: poisoned(each, name) for name, each in value.items()}
        case list():
            return [poisoned(each) for each in value]
        case str() if key not in {"state", "run", "body"}:
            return f"{value} {EVIL}"
        case int() if key == "trial":
            return f"{value} {EVIL}"
    return value


@pytest.mark.slow
def test_a_kept_page_that_an_enemy_wrote_runs_no_script(
    browser: Browser, dashboard: Served, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_run(recorded.root, recorded.runs["bohb"])
    whole = RunData(found)
    page: Any = {"moment": whole.moment(0.0), "facts": whole.facts(), "figures": whole.figures()}
    page = poisoned({**page, "table": whole.table(), "csv": {"text": ""}})
    page["table"]["keys"] = whole.table()["keys"]
    monkeypatch.setattr(kept_pages, "LARGE_EVENTS", 1)
    kept_pages.keep(found, whole._head(), page)
    dashboard.site.forget(recorded.runs["bohb"])
    with tab(browser, dashboard) as own:
        own.open(f"/runs/{recorded.runs['bohb']}")
        own.page.wait_for_selector("#title .badge")
        assert EVIL in own.page.inner_text("#title")
        for name in ("overview", "curves", "slots", "learned"):
            own.show(name, ".js-plotly-plot .main-svg")
            assert own.page.locator("main img").count() == 0, name
        own.show("trials", "tbody tr")
        assert own.page.locator("img").count() == 0
        assert own.troubles == []


def test_numbers_are_there_before_the_library_of_the_plots(page: Tab, recorded: Recorded) -> None:
    held: list[Route] = []
    page.page.route("**/plotly.min.js", lambda route: held.append(route))  # noqa: PLW0108  it has no attributes
    try:
        page.open(f"/runs/{recorded.runs['rubberband']}")
        page.page.wait_for_selector("#overview .card")
        assert page.page.locator(".js-plotly-plot").count() == 0
        wait_until(lambda: page.page.evaluate("1") and bool(held), "the plots were not asked for")
    finally:
        for route in held:
            route.continue_()
        page.page.unroute("**/plotly.min.js")
    page.page.wait_for_selector("#overview .js-plotly-plot")
    assert page.troubles == []


@pytest.mark.slow
def test_a_dashboard_that_is_gone_says_how_to_start_it_again(browser: Browser, recorded: Recorded) -> None:
    with served(recorded.root) as dashboard, tab(browser, dashboard) as own:
        own.open(f"/runs/{recorded.runs['rubberband']}")
        own.page.wait_for_selector("#overview .js-plotly-plot")
        own.page.route("**/api/**", lambda route: route.abort())
        own.page.click("[data-tab=trials]")
        own.page.wait_for_selector(".toast >> text=/elastune dashboard/")


def test_a_folder_that_cannot_be_read_is_named(page: Tab) -> None:
    page.open("/")
    page.page.wait_for_selector("#runs details")
    assert "1 folder cannot be read" in page.page.inner_text("#runs details")


def test_an_unknown_run_is_no_blank_page(browser: Browser, dashboard: Served) -> None:
    with tab(browser, dashboard) as own:  # its console notes the answer 404, at any time
        own.open("/runs/ffffff")
        assert "This cannot be shown" in own.page.inner_text("main")


def test_a_quote_is_played_with_saved_and_simulated(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "elastune-runs") as dashboard, tab(browser, dashboard) as page:
        inner = page.page
        page.open("/ask")
        inner.fill("textarea", JOB)
        inner.get_by_role("button", name="Quote", exact=True).click()
        inner.wait_for_selector(".sliders label")
        inner.wait_for_selector("#ask .js-plotly-plot")
        before = inner.inner_text(".sliders output >> nth=0")
        with inner.expect_response("**/api/quote"):
            inner.locator("input[aria-label=deadline]").press("ArrowRight")
        assert inner.inner_text(".sliders output >> nth=0") != before
        with inner.expect_download() as download:
            inner.get_by_role("button", name="Save the job file").click()
        assert "deadline" in Path(download.value.path()).read_text()
        inner.get_by_role("button", name="Simulate", exact=True).click()
        inner.wait_for_selector("text=See where time and money went")
        inner.wait_for_selector("#ask >> text=/training [0-9]+ %/")
        assert page.troubles == []


def test_curves_are_highlighted_and_a_trial_is_looked_at(page: Tab, recorded: Recorded) -> None:
    inner = page.page
    page.open(f"/runs/{recorded.runs['rubberband']}")
    page.show("curves", ".js-plotly-plot")
    inner.check("#curves >> text=log x")
    inner.fill("#curves input.short", "2")
    widths = inner.evaluate(
        "document.querySelector('#curves .plot').data.map((line) => [line.name, line.line.width])"
    )
    assert max(widths, key=lambda each: each[1])[0] == "trial 2"
    page.show("trials", "tbody tr")
    inner.select_option("#trials select", "stopped")
    shown = inner.locator("#trials tbody tr").all_inner_texts()
    assert shown
    assert all("stopped" in text for text in shown)
    inner.click("#trials tbody tr >> nth=0")
    assert "config" not in inner.inner_text("dialog dl")
    inner.click("dialog >> text=Its curve")
    inner.wait_for_selector("#curves:not([hidden])")
    inner.click("[data-tab=overview]")
    inner.click("#overview .choice >> text=money")
    title = inner.evaluate("document.querySelector('#overview .plot').layout.xaxis.title.text")
    assert title == "money spent"
    assert page.troubles == []


def test_a_tab_that_is_not_looked_at_holds_no_connection(page: Tab, recorded: Recorded) -> None:
    """A browser opens six to a server: the seventh tab of a run would wait for ever."""
    live = re.compile(r"/live$")
    with page.page.expect_request(live):
        page.open(f"/runs/{recorded.runs['pbt']}")
    page.page.wait_for_selector("#title .badge")
    look = (
        "(word) => { Object.defineProperty(document, 'visibilityState', { value: word, configurable: true });"
    )
    look += " document.dispatchEvent(new Event('visibilitychange')); }"
    with page.page.expect_event("requestfailed", lambda request: bool(live.search(request.url))):
        page.page.evaluate(look, "hidden")
    with page.page.expect_request(live):
        page.page.evaluate(look, "visible")
    assert page.troubles == []


def requests_of(runs: Path) -> list[type[ev.AnyEvent]]:
    found = find_run(runs, "last")
    events = [event_of(entry) for entry in Journal.open(found.journal).read(found.record.run)]
    return [type(event) for event in events if isinstance(event, ev.AnyRequest)]


def processes_of_runs() -> dict[int, str]:
    """The browser starts and keeps processes as it likes."""
    return {
        pid: line for pid, line in our_processes().items() if "chrom" not in line and "playwright" not in line
    }


def asked(page: Tab, button: str, **fields: str) -> None:
    """A request: what is typed, the preview, and the yes."""
    inner = page.page
    inner.click(f"#steer >> text='{button}'")
    for name, value in fields.items():
        inner.fill(f"dialog [name={name}]", value)
    if fields:
        inner.click("dialog button.main")
    inner.wait_for_selector("dialog button.main:has-text('Yes, do it')")
    inner.click("dialog button.main")
    inner.wait_for_selector("dialog", state="detached")


@pytest.mark.slow  # the same requests to a real run in runtime/real/test_control.py, its pages above
def test_a_real_run_is_watched_extended_and_stopped_from_the_page(browser: Browser, tmp_path: Path) -> None:
    before = processes_of_runs()  # earlier tests of this process keep a server to fork from
    driver = Driver(tmp_path, search=ASHA, budget=5)
    try:
        driver.wait_for_checkpoint()
        with served(driver.runs) as dashboard, tab(browser, dashboard) as page:
            page.page.click("#runs tbody tr a")
            page.page.wait_for_selector("#title .badge:has-text('running')")
            asked(page, "Extend", deadline="+2h")
            page.page.wait_for_selector("#overview >> text=/of [23]h/")  # less what the start took
            asked(page, "Add a configuration", config=json.dumps({"x": 0.5}))
            asked(page, "Stop a trial", trial="0")
            asked(page, "Stop")
            driver.let_go()
            page.page.wait_for_selector("#title .badge:has-text('stopped')")
            assert json.loads(driver.end())["ending"] == "stopped"
            path = f"/api/runs/{find_run(driver.runs, 'last').record.run}/preview"
            assert "is not running" in dashboard.post(path, {"action": "stop"}).json()["error"]
            page.show("log", "pre")
            page.show("trials", "tbody tr")
            with page.page.expect_download() as download:
                page.page.click("#trials >> text=Download the best model")
            assert Path(download.value.path()).read_bytes().startswith(b"PK")
            assert page.troubles == []
    finally:
        if driver.process.poll() is None:
            driver.kill()
    assert requests_of(driver.runs) == [ev.RunExtended, ev.ConfigAdded, ev.TrialStopAsked, ev.StopAsked]
    wait_until(lambda: processes_of_runs().keys() <= before.keys(), processes_of_runs, every_s=0.1)


@pytest.mark.slow
def test_a_real_run_is_started_suspended_resumed_and_watched_to_its_end(
    browser: Browser, tmp_path: Path
) -> None:
    gate, before = tmp_path / "go", processes_of_runs()
    held = {"gate": {"choice": [str(gate)]}, "held_at": {"choice": [3]}, "x": {"float": [0.0, 1.0]}}
    job = real_job(space=held, search=ASHA, hang_after="1h", budget=5)
    runs = tmp_path / "runs"
    with served(runs, folder=tmp_path) as dashboard, tab(browser, dashboard) as page:
        inner = page.page
        page.open("/ask")
        inner.fill("textarea", yaml.safe_dump(job.to_dict()))
        inner.get_by_role("button", name="Quote", exact=True).click()
        inner.click("text=Start …")
        inner.wait_for_selector("dialog button.main:has-text('Yes, do it')")
        inner.click("dialog button.main")
        inner.wait_for_selector("dialog", state="detached")
        wait_until(lambda: list(runs.glob("*/checkpoints/*/*.ckpt")), "no checkpoint came")
        page.open("/")
        inner.click("#runs tbody tr a")
        inner.wait_for_selector("#title .badge:has-text('running')")
        asked(page, "Suspend")
        gate.touch()
        inner.wait_for_selector("#title .badge:has-text('suspended')")
        wait_until(lambda: processes_of_runs().keys() <= before.keys(), processes_of_runs, every_s=0.1)
        asked(page, "Resume")
        inner.wait_for_selector("#title .badge:has-text('complete')")
        assert page.troubles == []
    assert requests_of(runs) == [ev.RestAsked]
    wait_until(lambda: processes_of_runs().keys() <= before.keys(), processes_of_runs, every_s=0.1)
