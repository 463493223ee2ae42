"""The pictures of docs/dashboard.md, taken in headless Chromium from a simulated run.

`python -m tests.dashboard.pictures` writes them into `docs/img`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import elastune
from tests.dashboard.browsing import Tab, chromium, tab
from tests.dashboard.sites import served

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMES = ("dashboard-overview", "dashboard-slots", "dashboard-learned", "dashboard-ask")
_AT_REST = "() => !document.querySelector('.busy')"


def take(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "elastune-runs"
        run = (
            elastune.simulate_many(EXAMPLES / "synthetic.yaml", faults="harsh", folder=runs)
            .runs[0]
            .digest.run
        )
        with served(runs) as dashboard, chromium() as browser, tab(browser, dashboard) as opened:
            _of_run(opened, run, folder)
            _of_quote(opened, folder)
            assert opened.troubles == []


def _of_run(opened: Tab, run: str, folder: Path) -> None:
    opened.open(f"/runs/{run}")
    for name in ("overview", "slots", "learned"):
        opened.show(name, ".js-plotly-plot .main-svg")
        _save(opened, folder, f"dashboard-{name}")


def _of_quote(opened: Tab, folder: Path) -> None:
    opened.open("/ask")
    opened.page.fill("textarea", (EXAMPLES / "resnet101.yaml").read_text(encoding="utf-8"))
    opened.page.get_by_role("button", name="Quote", exact=True).click()
    opened.page.wait_for_selector("#ask .js-plotly-plot .main-svg")
    _save(opened, folder, "dashboard-ask")


def _save(opened: Tab, folder: Path, name: str) -> None:
    opened.page.wait_for_function(_AT_REST)
    opened.page.screenshot(path=folder / f"{name}.png")


if __name__ == "__main__":
    take(ROOT / "docs" / "img")
