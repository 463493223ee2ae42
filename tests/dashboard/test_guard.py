"""Who is let in, and what other sites cannot do."""

from __future__ import annotations

import http.client
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import pytest

from elastune.dashboard.guard import HEADER, HEADERS, Access, keep_token
from elastune.dashboard.run_data import RunData
from elastune.dashboard.server import bind
from elastune.dashboard.steering import Tickets
from elastune.errors import JobError
from elastune.views.page.figures import Json
from tests.cli.commands import elastune
from tests.dashboard.recorded import Recorded
from tests.dashboard.sites import Reply, Served, served
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.xdist_group("dashboard")
CHANGES = ("/api/simulate", "/api/start", "/api/carry-out", "/api/runs/d1ed00/preview")
QUESTIONS = ("/api/quote", "/api/job")


@pytest.mark.parametrize("path", ["/", "/api/runs", "/runs/d1ed00", "/api/runs/d1ed00/live", "/?token=wrong"])
def test_without_the_token_nothing_is_shown(dashboard: Served, path: str) -> None:
    for headers in ({}, {"cookie": f"{dashboard.access.cookie}=wrong"}, {"cookie": "other=1"}):
        reply = dashboard.send("GET", path, headers)
        assert reply.status == 403
        assert "the token" in reply.text
        assert dashboard.access.token not in reply.text


def test_the_address_with_the_token_gives_a_cookie_and_loses_the_token(dashboard: Served) -> None:
    token = dashboard.access.token
    reply = dashboard.send("GET", f"/compare?runs=a&token={token}", {})
    assert reply.status == 303
    assert reply.headers["location"] == "/compare?runs=a"
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert reply.headers["referrer-policy"] == "no-referrer"


def test_the_address_for_a_browser_that_we_start_is_valid_once(dashboard: Served) -> None:
    """`ps` shows it to everybody on the machine."""
    token = dashboard.access.token_for_once()
    assert token != dashboard.access.token
    assert dashboard.send("HEAD", f"/?token={token}", {}).status == 403
    first = dashboard.send("GET", f"/?token={token}", {})
    assert first.status == 303
    assert token not in first.headers["set-cookie"]
    assert dashboard.send("GET", f"/?token={token}", {}).status == 403
    assert token not in repr(dashboard.access)


@pytest.mark.parametrize(
    "path", ["//evil.example/", "//evil.example%2f..", "/%5cevil.example", "/\\evil.example"]
)
def test_the_address_leads_to_no_other_site(dashboard: Served, path: str) -> None:
    reply = dashboard.send("GET", f"{path}?token={dashboard.access.token}", {})
    if reply.status == 303:
        assert re.match(r"/(?![/\\])", reply.headers["location"]), reply.headers["location"]


def test_the_token_is_in_no_page(dashboard: Served, recorded: Recorded) -> None:
    for path in ("/", "/ask", "/compare", f"/runs/{recorded.runs['asha']}", "/nothing", "/api/runs"):
        assert dashboard.access.token not in dashboard.get(path).text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "localhost.evil"]
)
def test_no_other_name_leads_here(dashboard: Served, host: str) -> None:
    reply = dashboard.send("GET", "/", {**dashboard.cookie, "host": host})
    assert reply.status in {400, 421}


@pytest.mark.parametrize("path", [*CHANGES, *QUESTIONS])
def test_other_sites_can_send_nothing(dashboard: Served, path: str) -> None:
    whole = dashboard.trusted
    without_origin = {name: value for name, value in whole.items() if name != "origin"}
    without_header = {name: value for name, value in whole.items() if name != HEADER}
    attacks = (
        without_origin,
        without_header,
        {**whole, "origin": "http://evil.example"},
        {**whole, "origin": "null"},
        {**whole, "origin": f"http://127.0.0.1:{dashboard.access.port + 1}"},
        {**whole, HEADER: dashboard.access.token},
        {**whole, HEADER: "é"},
        {name: value for name, value in whole.items() if name != "cookie"},
    )
    for headers in attacks:
        assert dashboard.send("POST", path, headers, {}).status == 403, headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_do_nothing(dashboard: Served, method: str) -> None:
    assert dashboard.send(method, "/api/carry-out", dashboard.cookie).status in {403, 405}
    assert dashboard.send(method, "/api/carry-out", dashboard.trusted).status == 405


def test_a_body_that_is_no_object_or_too_large_is_refused(dashboard: Served) -> None:
    assert dashboard.send("POST", "/api/quote", dashboard.trusted, b"{").status == 400
    assert dashboard.post("/api/quote", [1]).status == 400
    assert dashboard.send("POST", "/api/quote", dashboard.trusted, b"x" * 1_000_001).status == 413


def test_a_bug_of_ours_is_explained_behind_the_same_headers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path, tickets=cast("Tickets", None)) as broken:
        reply = broken.post("/api/carry-out", {})
    assert reply.status == 500
    assert reply.json()["error"].startswith("a bug of Elastune: AttributeError")
    assert reply.headers["content-security-policy"] == HEADERS["content-security-policy"]
    assert broken.access.token not in capfd.readouterr().err


def test_a_read_only_dashboard_quotes_its_jobs_and_changes_nothing(recorded: Recorded) -> None:
    with served(recorded.root, read_only=True) as only:
        for path in CHANGES:
            reply = only.post(path, {})
            assert (reply.status, reply.text) == (403, "this dashboard is read-only")
        page = only.get("/ask").text
        assert 'name="elastune-token" content=""' in page
        known = next(job for job in only.get("/api/jobs").json() if job["name"] == "asha")
        answer = only.post("/api/job", {"text": known["text"], "changes": {"deadline": 1800}})
        assert answer.status == 200
        other = only.post("/api/quote", {"text": known["text"] + "\n# other", "changes": {}})
        assert "read-only" in other.json()["error"]


def test_the_token_is_kept_in_a_file_of_the_user_alone(elastune_home: str) -> None:
    access = Access(host="127.0.0.1", port=1234)
    path = keep_token(access)
    assert path is not None
    assert path.parent == Path(elastune_home)
    assert path.read_text() == access.token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keep_token(Access(host="127.0.0.1", port=1234)) == path
    assert path.read_text() != access.token
    assert access.token not in repr(access)


@pytest.mark.parametrize(
    ("host", "name", "known"),
    [
        ("127.0.0.1", "localhost:1", True),
        ("127.0.0.1", "[::1]:1", True),
        ("127.0.0.1", "10.0.0.1:1", False),
        ("0.0.0.0", "10.0.0.1:1", True),
        ("0.0.0.0", "evil.example:1", False),
        ("10.0.0.1", "10.0.0.1", True),
    ],
)
def test_names_of_the_host(host: str, name: str, known: bool) -> None:
    assert Access(host=host, port=1).knows_host(name) == known


def test_the_command_serves_until_it_is_interrupted_and_removes_its_token(
    tmp_path: Path, elastune_home: str
) -> None:
    command = [
        sys.executable,
        "-m",
        "elastune",
        "dashboard",
        "--port",
        "0",
        "--no-open",
        "--runs-folder",
        "r",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"dashboard at (http://127\.0\.0\.1:(\d+)/)\?token=(\S+)\n", line)
        assert found is not None, line
        kept = Path(elastune_home) / f"dashboard-{found[2]}.token"
        assert kept.read_text() == found[3]
        process.terminate()
        process.stdout.read()
    wait_until(lambda: not kept.exists(), "the token was left")


def test_it_ends_without_a_word_while_a_browser_follows_a_run(recorded: Recorded) -> None:
    command = [sys.executable, "-m", "elastune", "dashboard", "--port", "0", "--no-open"]
    with subprocess.Popen(
        [*command, "--runs-folder", str(recorded.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)/\?token=(\S+)", process.stdout.readline())
        assert found is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE_S)
        cookie = {"cookie": f"elastune_{found[1]}={found[2]}"}
        connection.request("GET", f"/api/runs/{recorded.runs['died']}/live", headers=cookie)
        answer = connection.getresponse()
        assert answer.readline() == b"event: moment\n"
        process.terminate()
        _, errors = process.communicate()
        connection.close()
    assert errors == ""


def test_it_does_not_wait_for_an_answer_that_takes_long(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked, over = threading.Event(), threading.Event()

    def ranked(_: RunData) -> Json:
        asked.set()
        over.wait(PATIENCE_S)
        return {}

    monkeypatch.setattr(RunData, "importance", ranked)
    replies: list[Reply] = []
    with served(recorded.root) as dashboard:
        path = f"/api/runs/{recorded.runs['asha']}/importance"
        waiting = threading.Thread(target=lambda: replies.append(dashboard.get(path)))
        waiting.start()
        assert asked.wait(PATIENCE_S)
    waiting.join()
    over.set()
    assert [reply.status for reply in replies] == [503]
    assert capfd.readouterr().err == ""


def test_a_port_in_use_and_a_file_as_folder_are_explained(tmp_path: Path) -> None:
    listening = bind("127.0.0.1", 0)
    listening.listen()
    port = listening.getsockname()[1]
    with pytest.raises(JobError, match="choose another --port"):
        bind("127.0.0.1", port)
    listening.close()
    (tmp_path / "file").write_text("")
    done = elastune("dashboard", "--port", "0", "--no-open", "--runs-folder", "file", cwd=tmp_path)
    assert done.returncode == 2
    assert "is a file; expected the folder" in done.stderr
