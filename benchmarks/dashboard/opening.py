"""Seconds until a page can be read, in headless Chromium, from the click to the last thing drawn.

The dashboard is a process of its own, as for users. A run that ended has its page beside its journal. One
whose process died before it kept the page is opened twice, by two dashboards: the first replays its journal
and shows what it has read so far, the second has the page that the first one kept.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

from benchmarks.dashboard.large_run import record_run
from benchmarks.reporting import Cell, Report, Table, Track, silently
from tests.dashboard.browsing import chromium

_PATIENCE_MS = 1_800_000
_WHOLE = "#overview .js-plotly-plot .main-svg"
_READ = "#reading:empty"
_SCROLL = """async () => {
  let last = performance.now(), slowest = 0;
  for (let at = 0; at < 120; at += 1) {
    window.scrollBy(0, 150);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    slowest = Math.max(slowest, now - last);
    last = now;
  }
  return slowest;
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    trials: int
    iterations: int
    run: str


SIZES = (Size(trials=100, iterations=20, run="0a0001"), Size(trials=10_000, iterations=100, run="0a0002"))


@contextlib.contextmanager
def dashboard(root: Path, home: Path) -> Iterator[str]:
    """The address with its token; `home` is where pages are kept."""
    command = [sys.executable, "-m", "elastune", "dashboard", "--no-open", "--port", "0"]
    with subprocess.Popen(
        [*command, "--runs-folder", str(root)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ELASTUNE_HOME": str(home)},
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("dashboard at ").strip()
        finally:
            process.terminate()


def until(page: Page, address: str, *selectors: str) -> list[float]:
    """Seconds after which each of them was there."""
    began = time.perf_counter()
    page.goto(address)
    found = []
    for selector in selectors:
        page.wait_for_selector(selector, state="attached", timeout=_PATIENCE_MS)
        found.append(time.perf_counter() - began)
    return found


def measure(root: Path, home: Path, name: str, run: str, turn: str) -> tuple[Cell, ...]:
    with dashboard(root, home) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        (listed,) = until(page, address, "#runs tbody tr")
        base = address.partition("?")[0]
        shown, drawn, whole = until(page, f"{base}runs/{run}", "#overview .cards .card", _WHOLE, _READ)
        page.goto("about:blank")  # the same page with another tab would not be loaded again
        (table,) = until(page, f"{base}runs/{run}#trials", "#trials tbody tr")
        return name, turn, listed, shown, drawn, whole, table, slowest_frame_ms(page)


def slowest_frame_ms(page: Page) -> float:
    """While the table of trials is scrolled to its end; 17 ms are smooth."""
    return float(page.evaluate(_SCROLL))


def run(track: Track = silently, sizes: tuple[Size, ...] = SIZES) -> Report:
    rows: list[tuple[Cell, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in track(sizes):
            name = f"{size.trials:,} trials, {size.trials * size.iterations:,} rows"
            for keeps_page, turns in ((True, ("ended",)), (False, ("its process died", "the same again"))):
                root, home = Path(folder) / f"{size.run}-{keeps_page}", Path(folder) / f"home-{keeps_page}"
                record_run(
                    root, trials=size.trials, iterations=size.iterations, run=size.run, keeps_page=keeps_page
                )
                rows += (measure(root, home, name, size.run, turn) for turn in turns)
    table = Table(
        name="opening",
        title="Seconds until a page can be read",
        header=("run", "opened", "list", "numbers", "plots", "whole journal", "table", "slowest frame, ms"),
        rows=tuple(rows),
        note="The list includes the start of the browser's first page; `whole journal`: all of it is shown; "
        "the table is opened anew. Frames are those of scrolling through the table.",
    )
    return Report(tables=(table,))
