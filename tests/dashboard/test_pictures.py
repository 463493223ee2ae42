"""The pictures of the docs can be taken, and the page shows the ones that are."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from tests.dashboard.pictures import NAMES, ROOT, take

pytestmark = pytest.mark.xdist_group("dashboard")


def test_the_page_shows_all_pictures() -> None:
    page = (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"](img/{name}.png)" in page
        assert (ROOT / "docs" / "img" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_pictures_are_taken_without_an_error(tmp_path: Path) -> None:
    take(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(NAMES)
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())
