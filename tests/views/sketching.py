"""Reports whose PNG files are stubs: to draw them is half of the work. Their pages are the real ones."""

from __future__ import annotations

import pytest

from elastune.api import reporting

SKETCH = b"\x89PNG\r\n"


@pytest.fixture
def drawn() -> None:
    """For a test that looks at the PNG files."""


@pytest.fixture(autouse=True)
def sketched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(reporting, "to_png", lambda figure: SKETCH)
