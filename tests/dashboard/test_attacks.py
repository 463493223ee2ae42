"""What an enemy tries who can write files of a run, or who sends requests: links, secrets, bodies that do not
end, and journals that are half written."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import zipfile
from pathlib import Path

import pytest
import yaml

from elastune.dashboard import app, protocol
from elastune.dashboard.asking import known_jobs
from elastune.dashboard.downloads import is_inside, zip_of
from elastune.journal.run_folders import find_run
from elastune.views.page.masking import HIDDEN, masked, masked_text
from tests.dashboard.recorded import Recorded
from tests.dashboard.sites import Served, served
from tests.runs.checked_run import job_of
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.xdist_group("dashboard")
SECRET = "hunter2"


@pytest.fixture
def copied(recorded: Recorded, tmp_path: Path) -> Path:
    """The folder of one run, alone under a root of its own."""
    source = find_run(recorded.root, recorded.runs["asha"]).folder.path
    return Path(shutil.copytree(source, tmp_path / "runs" / source.name))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside.txt"
    path.write_text(f"{SECRET}\n")
    return path


def test_a_job_that_is_a_link_to_a_file_elsewhere_is_not_shown(copied: Path, outside: Path) -> None:
    assert len(known_jobs(copied.parent)) == 1
    (copied / "job.yaml").unlink()
    (copied / "job.yaml").symlink_to(outside)
    assert known_jobs(copied.parent) == []


def test_a_link_in_a_model_is_left_out(tmp_path: Path, outside: Path) -> None:
    model, other = tmp_path / "model", tmp_path / "other"
    model.mkdir()
    other.mkdir()
    (other / "secret").write_text(SECRET)
    (model / "weights").write_bytes(b"w")
    (model / "file").symlink_to(outside)
    (model / "folder").symlink_to(other, target_is_directory=True)
    with zipfile.ZipFile(zip_of(model, tmp_path / "out.zip")) as archive:
        assert archive.namelist() == ["model/weights"]
    assert not is_inside(model / "folder" / "secret", model)
    assert is_inside(model / "weights", model)


@pytest.mark.parametrize(
    "key", ["password", "api_key", "AWS_SECRET_ACCESS_KEY", "github-token", "token", "auth", "credentials"]
)
def test_a_secret_of_a_job_is_hidden(key: str) -> None:
    data = {"name": "x", "cluster": {"options": {key: SECRET, "setup": [f"export {key.upper()}='{SECRET}'"]}}}
    text = yaml.safe_dump(data)
    assert SECRET not in str(masked(data)) or "-" in key  # no shell has a variable with a dash
    assert f"{key}: {SECRET}" not in masked_text(text)
    assert HIDDEN in masked_text(text)


def test_a_password_in_an_address_is_hidden_and_a_job_without_secrets_stays_as_it_is() -> None:
    assert SECRET not in str(masked({"journal": f"postgresql://me:{SECRET}@host/db"}))
    text = "# a comment\nname: x\ncluster: {options: {token_secret: the/name, tokens: 5, max_nodes: 3}}\n"
    assert masked_text(text) == text
    assert masked({"keys": [1, None, True], "iteration": "10s"}) == {
        "keys": [1, None, True],
        "iteration": "10s",
    }
    assert SECRET not in masked_text(f"[ at: http://me:{SECRET}@host/")
    assert SECRET not in masked_text(f"[ at 1http://me:{SECRET}@host/ api_key: {SECRET}")
    assert SECRET not in masked_text(f"[ {{user: me, password: {SECRET}}}")
    assert SECRET not in masked_text(f'{{"user":"me","password":"{SECRET}"')


@pytest.mark.parametrize("piece", ["x", "x ", "a:", "a='", "a://b:", '"'])
def test_a_line_as_long_as_a_job_may_be_keeps_the_dashboard_busy_for_a_moment_only(piece: str) -> None:
    """Not for a quarter of an hour."""
    line = piece * (200_000 // len(piece))
    assert len(masked_text(f"a: [\n{line}")) > 0.9 * len(line)
    assert masked(line) == line


def test_a_body_that_does_not_arrive_is_given_up(dashboard: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_BODY_S", 0.05)
    head = "".join(f"{name}: {value}\r\n" for name, value in dashboard.trusted.items())
    with socket.create_connection(("127.0.0.1", dashboard.access.port)) as connection:
        start = f"POST /api/quote HTTP/1.1\r\nhost: {dashboard.host}\r\n{head}content-length: 100\r\n\r\n{{"
        connection.sendall(start.encode())
        assert b" 408 " in connection.makefile("rb").readline()


def test_a_body_of_a_thousand_brackets_is_refused(dashboard: Served) -> None:
    reply = dashboard.send("POST", "/api/quote", dashboard.trusted, b"[" * 500_000)
    assert reply.status == 400


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 5000])
def test_a_journal_that_is_half_written_is_a_message(copied: Path, size: int) -> None:
    journal = copied / "journal.sqlite"
    journal.write_bytes(journal.read_bytes()[:size])
    with served(copied.parent) as dashboard:
        found = dashboard.get("/api/runs").json()
        run = copied.name[-6:]
        if not found["runs"]:
            assert found["broken"][0]["reason"]
        for path in (f"/runs/{run}", f"/api/runs/{run}/figures", f"/api/runs/{run}/trials.csv"):
            reply = dashboard.get(path)
            assert "a bug of Elastune" not in reply.text
            assert reply.status in {200, 400}
            assert reply.text


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 12)
)


@pytest.mark.parametrize(
    "text", [LAUGHS, "name: &a [*a]\n", "[" * 5000, "name: [\npassword: hunter2\n", "\x00"]
)
def test_a_job_that_would_fill_the_memory_breaks_no_page(copied: Path, recorded: Recorded, text: str) -> None:
    good = find_run(recorded.root, recorded.runs["pbt"]).folder.path
    shutil.copytree(good, copied.parent / good.name)
    (copied / "job.yaml").write_text(text)
    with served(copied.parent) as dashboard:
        jobs = dashboard.get("/api/jobs").json()
        assert "pbt" in [job["name"] for job in jobs]
        assert SECRET not in str(jobs)
        reply = dashboard.post("/api/quote", {"text": text, "changes": {}})
        assert reply.status == 400
        assert "a bug of Elastune" not in reply.text


@pytest.mark.parametrize("algorithm", ["sha", "asha", "random"])
def test_a_quote_and_a_preview_run_no_code_of_the_job(tmp_path: Path, algorithm: str) -> None:
    """A job may be that of another person's run."""
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(
        f"open({str(ran)!r}, 'w').close()\ndef f(config, iteration): return 1.0\n"
    )
    job = job_of(
        None,
        trainable=f"{tmp_path}/evil.py:f",
        search={"algorithm": algorithm, "trials": 4, "max_iterations": 4},
        deadline="1h",
    )
    with served(tmp_path / "runs", folder=tmp_path) as dashboard:
        for path in ("/api/quote", "/api/job", "/api/start"):
            reply = dashboard.post(path, {"text": yaml.safe_dump(job.to_dict()), "changes": {}})
            assert reply.status == 200, reply.text
    assert not ran.exists()


def test_a_pipe_in_place_of_a_file_is_not_waited_for(copied: Path) -> None:
    for path in (copied / "job.yaml", copied / "report" / "result.json", copied / "simulation.json"):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    with served(copied.parent) as dashboard:
        assert [run["run"] for run in dashboard.get("/api/runs").json()["runs"]][:1] == [copied.name[-6:]]
        assert dashboard.get("/api/jobs").json() == []
        assert dashboard.get(f"/api/runs/{copied.name[-6:]}/figures").status == 200


def test_a_journal_with_broken_text_is_a_message(copied: Path) -> None:
    with sqlite3.connect(copied / "journal.sqlite") as journal:
        journal.execute(
            "UPDATE elastune_entries SET event = CAST(x'7b22ff' || event AS TEXT) WHERE number = 5"
        )
        journal.execute("UPDATE elastune_runs SET name = CAST(x'ff' || name AS TEXT)")
    journal.close()
    run = copied.name[-6:]
    with served(copied.parent) as dashboard:
        for path in ("/", "/api/runs", f"/runs/{run}", f"/api/runs/{run}/figures", f"/api/runs/{run}/trials"):
            reply = dashboard.get(path)
            assert "a bug of Elastune" not in reply.text, path
            assert reply.status in {200, 400}, path


def test_a_web_socket_of_another_site_is_refused(dashboard: Served) -> None:
    headers = {
        **dashboard.cookie,
        "origin": "http://evil.example",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for path in (f"/api/runs/{'a' * 6}/live", "/static/run.js"):
        assert dashboard.send("GET", path, headers).status in {200, 400, 403, 404}


def test_a_request_whose_head_does_not_arrive_is_given_up(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.05)
    with (
        served(recorded.root) as dashboard,
        socket.create_connection(("127.0.0.1", dashboard.access.port)) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nhost: 127")
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1000) == b""
        assert dashboard.get("/").status == 200
