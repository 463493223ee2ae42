"""The site is built from these pages without a warning, and needs nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.tools.cli import PAGE, write_page
from docs.tools.pictures import FOLDER, PICTURES, draw
from tests.docs.commands import ROOT
from tests.waiting import PATIENCE_S

_LOADED = re.compile(r"""<(?:script|link|img)\b[^>]*?\b(?:src|href)=["']?(https?:)?//""")


@pytest.mark.slow  # `tests/docs/test_pages.py` and the test of links read the same pages
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert not _LOADED.search(page.read_text(encoding="utf-8")), page


def test_the_page_about_the_command_line_is_its_help() -> None:
    """If a command has changed: python -m docs.tools.cli"""
    assert PAGE.read_text(encoding="utf-8") == write_page()


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_are_as_they_are_drawn(name: str) -> None:
    """If one has changed: python -m docs.tools.pictures"""
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == draw(name)
