"""Quotes of a job with other limits, simulations from the page, and requests to runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from elastune.dashboard.steering import ACTIONS, Tickets
from elastune.errors import JobError
from tests.dashboard.recorded import Recorded
from tests.dashboard.sites import Served, served
from tests.runs.checked_run import job_of

pytestmark = pytest.mark.xdist_group("dashboard")
JOB = yaml.safe_dump(
    job_of(
        None, trainable="synthetic:hypersched", metric=None, mode=None, space=None, deadline="10m"
    ).to_dict()
)


def quoted(dashboard: Served, **changes: object) -> dict[str, float]:
    reply = dashboard.post("/api/quote", {"text": JOB, "changes": changes})
    assert reply.status == 200, reply.text
    found: dict[str, float] = reply.json()
    return found


def test_a_quote_changes_with_the_limits(dashboard: Served) -> None:
    frontier = dashboard.post("/api/quote", {"text": JOB, "changes": {}, "whole": True}).json()["frontier"]
    fastest = min(point["jct_seconds"] for point in frontier)
    usual, sooner = quoted(dashboard), quoted(dashboard, deadline=1.3 * fastest)
    assert sooner["jct_seconds"] < usual["jct_seconds"]
    assert sooner["cost"] > usual["cost"]
    assert quoted(dashboard, max_nodes=4)["most_nodes"] == 4


def test_a_whole_quote_has_the_frontier_and_other_planners(dashboard: Served) -> None:
    reply = dashboard.post("/api/quote", {"text": JOB, "changes": {}, "whole": True}).json()
    assert len(reply["frontier"]) > 1
    assert "static" in reply["comparison"]
    assert reply["stages"]


def test_what_cannot_be_quoted_is_explained(dashboard: Served) -> None:
    def error(text: str, **changes: object) -> str:
        reply = dashboard.post("/api/quote", {"text": text, "changes": changes})
        assert reply.status == 400
        message: str = reply.json()["error"]
        return message

    assert "no plan" in error(JOB, deadline=1)
    assert "line 1" in error("search: [")
    assert "deadlin is not a key" in error(f"deadlin: 5m\n{JOB}")
    assert "secret cannot be changed here" in error(JOB, secret=1)
    assert "characters" in error("#" * 300_000)
    assert "expected the text" in error(5)  # type: ignore[arg-type]


def test_the_job_file_of_the_chosen_point_is_a_job(dashboard: Served) -> None:
    changes = {"deadline": 1234, "budget": None, "max_nodes": 5}
    text = dashboard.post("/api/job", {"text": JOB, "changes": changes}).json()["text"]
    data = yaml.safe_load(text)
    assert data["deadline"] == 1234
    assert data["cluster"]["max_nodes"] == 5
    assert quoted(dashboard, **changes) == {
        **dashboard.post("/api/quote", {"text": text, "changes": {}}).json()
    }


def test_a_simulation_from_the_page_is_kept_as_a_run(tmp_path: Path) -> None:
    with served(tmp_path / "elastune-runs") as dashboard:
        assert dashboard.get("/api/runs").json()["runs"] == []
        made = dashboard.post(
            "/api/simulate", {"text": JOB, "changes": {}, "faults": "harsh", "seed": 3}
        ).json()
        runs = dashboard.get("/api/runs").json()["runs"]
        assert [run["run"] for run in runs] == [made["run"]]
        assert dashboard.get(f"/api/runs/{made['run']}/figures").json()["trials"] == 9
        assert [job["runs"] for job in dashboard.get("/api/jobs").json()] == [[made["run"]]]
        wrong = dashboard.post("/api/simulate", {"text": JOB, "changes": {}, "faults": "no such"})
        assert wrong.status == 400
        assert "faults" in wrong.json()["error"]


def test_a_job_that_only_real_runs_can_train_is_simulated_with_made_up_values(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("import elastune\n\nclass Real(elastune.Trainable):\n    pass\n")
    space = {"lr": {"float": [0.0, 1.0]}}
    text = yaml.safe_dump(
        yaml.safe_load(JOB) | {"trainable": "real.py:Real", "space": space, "metric": "loss"}
    )
    with served(tmp_path / "elastune-runs", folder=tmp_path) as dashboard:
        made = dashboard.post("/api/simulate", {"text": text, "changes": {}}).json()
        assert made["invents"]
        quoted_s = dashboard.post("/api/quote", {"text": text, "changes": {}}).json()["jct_seconds"]
        assert made["result"]["predicted"]["jct_seconds"] == pytest.approx(quoted_s, rel=0.05)
        wrong = dashboard.post("/api/simulate", {"text": text, "changes": {"deadline": 1}})
        assert "no plan" in wrong.json()["error"]


def test_a_slow_quote_keeps_no_request_to_a_run_waiting(tmp_path: Path) -> None:
    with served(tmp_path / "elastune-runs", quoting=asyncio.Semaphore(0)) as dashboard:
        with pytest.raises(TimeoutError):
            dashboard.send("POST", "/api/quote", dashboard.trusted, {"text": JOB}, timeout_s=0.2)
        assert dashboard.post("/api/carry-out", {"ticket": "other"}).status == 400


def test_a_start_is_previewed_and_nothing_starts_without_its_ticket(tmp_path: Path) -> None:
    with served(tmp_path / "elastune-runs") as dashboard:
        reply = dashboard.post("/api/start", {"text": JOB, "changes": {}}).json()
        assert reply["text"].startswith("A run of ")
        assert reply["ticket"]
        assert not (tmp_path / "elastune-runs").exists()
        assert dashboard.post("/api/carry-out", {"ticket": "other"}).status == 400


@pytest.mark.parametrize("action", ACTIONS)
def test_a_simulated_run_takes_no_requests(dashboard: Served, recorded: Recorded, action: str) -> None:
    given = {"trial": "1", "config": {"x": 0.5}, "deadline": "+10m"}
    reply = dashboard.post(f"/api/runs/{recorded.runs['died']}/preview", {"action": action, "given": given})
    assert reply.status == 400
    assert "is simulated" in reply.json()["error"]


def test_a_ticket_is_used_once_and_expires() -> None:
    now_s = 0.0
    tickets = Tickets(lambda: now_s)
    done: list[str] = []

    def carry_out() -> str:
        done.append("x")
        return "done"

    first, second = tickets.issue("a", carry_out), tickets.issue("b", carry_out)
    assert first != second
    assert tickets.redeem(first) == "done"
    with pytest.raises(JobError, match="sent already"):
        tickets.redeem(first)
    now_s = 301.0
    with pytest.raises(JobError, match="too old"):
        tickets.redeem(second)
    assert done == ["x"]
