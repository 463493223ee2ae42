"""Every page and every answer, for recorded runs of all kinds."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import pytest

from elastune.dashboard.downloads import zip_of
from elastune.dashboard.guard import HEADERS
from elastune.job.job import Job
from elastune.views.page.figures import money_at, thinned
from tests.dashboard.recorded import EVIL, Recorded
from tests.dashboard.sites import Served
from tests.policies.test_contract import POLICIES

pytestmark = pytest.mark.xdist_group("dashboard")
KINDS = (*POLICIES, "hopping", "failed", "evil", "died", "suspended", "old")


@pytest.mark.parametrize("page", ["/", "/ask", "/compare"])
def test_pages_are_there_without_runs(dashboard: Served, page: str) -> None:
    reply = dashboard.get(page)
    assert reply.status == 200
    assert "<!doctype html>" in reply.text


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_has_its_data(dashboard: Served, recorded: Recorded, kind: str) -> None:
    run = recorded.runs[kind]
    assert dashboard.get(f"/runs/{run}").status == 200
    figures = dashboard.get(f"/api/runs/{run}/figures").json()
    assert figures["trials"] > 0
    assert figures["node_lives"]
    trials = dashboard.get(f"/api/runs/{run}/trials").json()
    assert len(trials["rows"]) == figures["trials"]
    assert all(len(row) == len(trials["columns"]) == len(trials["keys"]) for row in trials["rows"])
    facts = dashboard.get(f"/api/runs/{run}/facts").json()
    assert facts["run"] == run
    name, moment = dashboard.first_event(f"/api/runs/{run}/live")
    assert name == "moment"
    expected = {"failed": "failed", "died": "interrupted", "suspended": "suspended"}
    if kind in expected:
        assert moment["state"] == expected[kind]
    assert moment["writer"] is None
    assert moment["events"] == figures["events"]
    assert moment["total"] == moment["events"]
    assert moment["snapshot"]["is_over"] == (kind not in {"died", "suspended"})
    assert sum(figures["spent"].values()) == pytest.approx(1.0)


def test_the_list_has_all_runs_and_says_why_a_folder_cannot_be_read(
    dashboard: Served, recorded: Recorded
) -> None:
    while (found := dashboard.get("/api/runs").json())["unread"]:
        pass  # a busy machine reads a large folder piece by piece
    assert set(recorded.runs.values()) <= {line["run"] for line in found["runs"]}
    states = {line["run"]: line["state"] for line in found["runs"]}
    assert states[recorded.runs["died"]] == "interrupted"
    assert states[recorded.runs["failed"]] == "failed"
    assert [each["folder"] for each in found["broken"]] == ["broken-20260101T000000Z-b40ce4"]
    assert found["broken"][0]["reason"]


def test_the_job_of_a_run_is_a_job_without_keys_that_have_no_value(
    dashboard: Served, recorded: Recorded
) -> None:
    text = dashboard.get(f"/api/runs/{recorded.runs['random']}/facts").json()["job"]
    assert "null" not in text
    given = Job.from_yaml_text(text, "the job", recorded.root).to_dict()
    (known,) = (job for job in dashboard.get("/api/jobs").json() if job["runs"] == [recorded.runs["random"]])
    assert given == Job.from_yaml_text(known["text"], "the job", recorded.root).to_dict()


def test_hyperparameters_are_ranked_or_it_is_said_why_not(dashboard: Served, recorded: Recorded) -> None:
    many = dashboard.get(f"/api/runs/{recorded.runs['rubberband']}/importance").json()
    assert many["shares"] == {"x": 1.0}
    assert "4 trials" in many["why"]
    none = dashboard.get(f"/api/runs/{recorded.runs['failed']}/importance").json()
    assert none == {"shares": {}, "why": "0 trials have a value; 4 are needed"}


def test_a_run_that_cannot_be_read_does_not_keep_others_from_a_comparison(
    dashboard: Served, recorded: Recorded
) -> None:
    found = dashboard.get(f"/api/compare?runs=ffffff,{recorded.runs['asha']}").json()
    assert [run["run"] for run in found["runs"]] == [recorded.runs["asha"]]
    assert [each["run"] for each in found["broken"]] == ["ffffff"]
    assert "ffffff" in found["broken"][0]["reason"]


def test_runs_are_compared(dashboard: Served, recorded: Recorded) -> None:
    chosen = [recorded.runs[kind] for kind in ("asha", "rubberband")]
    found = dashboard.get(f"/api/compare?runs={','.join(chosen)}").json()
    assert [run["run"] for run in found["runs"]] == chosen
    for run in found["runs"]:
        values = [step["value"] for step in run["best"]]
        assert values == sorted(values)
        spent = [step["usd"] for step in run["best"]]
        assert spent == sorted(spent)


@pytest.mark.parametrize(
    "run",
    [
        "ffffff",
        "..",
        "%2e%2e",
        "..%2f..%2fetc",
        "%2fetc%2fpasswd",
        "last",
        "rubberband",
        "aaaaaa.1/../../x",
        "%00",
        "d1ed00%00",
    ],
)
@pytest.mark.parametrize(
    "path", ["/runs/{}", "/api/runs/{}/figures", "/api/runs/{}/live", "/api/runs/{}/model.zip"]
)
def test_only_ids_of_runs_find_something(dashboard: Served, run: str, path: str) -> None:
    reply = dashboard.get(path.format(run))
    assert reply.status in {400, 404}
    assert "root:" not in reply.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/../../etc/passwd",
        "/api/nothing",
        "/static/",
    ],
)
def test_no_other_file_is_served(dashboard: Served, path: str) -> None:
    reply = dashboard.get(path)
    assert reply.status in {404, 405}
    assert "import" not in reply.text
    assert "root:" not in reply.text


def test_plots_come_out_of_the_installed_package(dashboard: Served) -> None:
    reply = dashboard.get("/static/plotly.min.js")
    assert reply.status == 200
    assert b"plotly.js v" in reply.body[:400]


@pytest.mark.parametrize("name", ["parts", "plots", "run", "runs", "ask", "compare"])
def test_scripts_never_write_markup(dashboard: Served, name: str) -> None:
    """Texts become text nodes: what writes markup, or runs text, is not in our scripts."""
    script = dashboard.get(f"/static/{name}.js").text
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in script


def test_nothing_that_users_wrote_is_markup_in_a_page_or_has_another_type(
    dashboard: Served, recorded: Recorded
) -> None:
    run = recorded.runs["evil"]
    for path in (
        f"/runs/{run}",
        "/",
        "/ask",
        f"/compare?runs={EVIL}",
        f"/nothing/{EVIL.replace(' ', '%20')}",
    ):
        reply = dashboard.get(path.replace(" ", "%20"))
        assert EVIL not in reply.text
    for name in ("figures", "trials", "importance", "facts"):
        reply = dashboard.get(f"/api/runs/{run}/{name}")
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"
    assert EVIL in dashboard.get(f"/api/runs/{run}/trials").text
    assert EVIL in next(iter(dashboard.get(f"/api/runs/{run}/trials").json()["errors"].values()))


def test_a_table_for_spreadsheets_has_no_formulas(dashboard: Served, recorded: Recorded) -> None:
    reply = dashboard.get(f"/api/runs/{recorded.runs['evil']}/trials.csv")
    assert reply.headers["content-type"].startswith("text/csv")
    assert reply.headers["content-disposition"].startswith("attachment")
    cells = [cell for row in csv.reader(io.StringIO(reply.text)) for cell in row]
    texts = [cell for cell in cells if not _is_number(cell)]
    assert [cell for cell in texts if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []
    assert any(cell.startswith(("'=cmd", "'@plain")) for cell in texts)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_a_simulated_run_has_neither_logs_nor_models(dashboard: Served, recorded: Recorded) -> None:
    run = recorded.runs["asha"]
    assert "is simulated" in dashboard.get(f"/api/runs/{run}/log/0").json()["error"]
    assert "is simulated" in dashboard.get(f"/api/runs/{run}/model.zip").json()["error"]


def test_a_model_is_packed_with_the_names_below_it(tmp_path: Path) -> None:
    model = tmp_path / "checkpoint"
    (model / "inner").mkdir(parents=True)
    (model / "weights").write_bytes(b"w")
    (model / "inner" / "more").write_bytes(b"m")
    packed = zip_of(model, tmp_path / "out.zip")
    with zipfile.ZipFile(packed) as archive:
        assert sorted(archive.namelist()) == ["checkpoint/inner/more", "checkpoint/weights"]


def test_every_answer_has_the_headers_that_protect_it(dashboard: Served, recorded: Recorded) -> None:
    paths = ("/", "/nothing", "/api/runs", "/static/run.js", f"/api/runs/{recorded.runs['evil']}/trials.csv")
    for path in paths:
        headers = dashboard.get(path).headers
        for name, value in HEADERS.items():
            assert headers[name] == value or (name == "cache-control" and path.startswith("/static")), path


def test_long_lists_are_thinned_with_both_ends(recorded: Recorded) -> None:
    assert thinned(list(range(10)), 20) == list(range(10))
    short = thinned(list(range(1001)), 11)
    assert short == list(range(0, 1001, 100))


def test_money_between_two_points_is_linear() -> None:
    money = [(0.0, 0.0), (10.0, 5.0), (10.0, 6.0), (20.0, 6.0)]
    assert money_at(money, 5.0) == 2.5
    assert money_at(money, 15.0) == 6.0
    assert money_at(money, 99.0) == 6.0
    assert money_at([], 1.0) == 0.0
