"""Reports whose figures are stubs, with the words of the real ones: to draw them is most of the work."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import pytest

from elastune.api import reporting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKETCH = b"\x89PNG\r\n"


@pytest.fixture
def drawn() -> None:
    """For a test that looks at the figures, on the page or as PNG files."""


@pytest.fixture
def traced() -> None:
    """For a test that looks at the figures of the page."""


@pytest.fixture(autouse=True)
def sketched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "drawn" in request.fixturenames:
        return
    monkeypatch.setattr(reporting, "to_png", lambda figure: SKETCH)
    if "traced" not in request.fixturenames:
        monkeypatch.setattr(reporting, "to_svg", words_of)


def words_of(figure: Figure, name: str) -> str:
    from matplotlib.text import Text  # noqa: PLC0415 - heavy

    found = (each.get_text() for each in figure.findobj(Text) if isinstance(each, Text))
    return f"<svg>{''.join(f'<text>{escape(words)}</text>' for words in found if words)}</svg>"
