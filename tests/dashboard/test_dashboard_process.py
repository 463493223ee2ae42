"""The dashboard that a run starts beside itself."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from elastune.api.dashboard_process import dashboard_beside
from tests.waiting import wait_until


def opens(address: str) -> str:
    """The page, as a browser gets it."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with browser.open(address) as answer:
        page: str = answer.read().decode()
        return page


def is_gone(address: str) -> bool:
    try:
        opens(address)
    except urllib.error.HTTPError:
        return False
    except OSError:
        return True
    return False


def test_it_serves_while_the_run_goes_on_and_no_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with dashboard_beside(tmp_path / "runs"):
        found = re.fullmatch(r"dashboard at (http://127\.0\.0\.1:\d+/\?token=\S+)\n", capsys.readouterr().err)
        assert found is not None
        assert "<title>Runs · Elastune</title>" in opens(found[1])
    assert is_gone(found[1])
    with dashboard_beside(tmp_path, wanted=False):
        assert capsys.readouterr().err == ""


def test_it_ends_when_the_run_is_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom elastune.api.dashboard_process import dashboard_beside\n"
        "with dashboard_beside(Path('runs')): input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline().removeprefix("dashboard at ").strip()
        assert opens(address)
        process.kill()
    wait_until(lambda: is_gone(address), "the dashboard outlived its run", every_s=0.2)
