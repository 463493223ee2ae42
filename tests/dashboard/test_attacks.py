"""What an enemy tries who can write files of a run, or who sends requests: links, secrets, bodies that do not
end, and journals that are half written."""

from __future__ import annotations

import shutil
import socket
import zipfile
from pathlib import Path

import pytest
import yaml

from elastune.dashboard import app
from elastune.dashboard.asking import known_jobs
from elastune.dashboard.downloads import is_inside, zip_of
from elastune.journal.run_folders import find_run
from elastune.views.page.masking import HIDDEN, masked, masked_text
from tests.dashboard.recorded import Recorded
from tests.dashboard.sites import Served, served

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
