"""A headless Chromium, and pages that write down what must not happen: errors, dialogs, foreign requests."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, Request, sync_playwright

from tests.dashboard.sites import Served
from tests.waiting import PATIENCE_S

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine; `apt-get install chromium` brings one")
    # Chromium refuses its sandbox to root, as whom containers run.
    arguments = ["--disable-gpu", "--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(kw_only=True)
class Tab:
    """`troubles`: console errors, errors of scripts, dialogs, and requests that leave the dashboard."""

    page: Page
    served: Served
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        page = self.page
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(f"console: {message.text}")

    def _error(self, error: Error) -> None:
        self.troubles.append(f"script: {error}")

    def _dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.served.base}/", "data:", "blob:")):
            self.troubles.append(f"request: {request.url}")

    def open(self, path: str) -> None:
        self.page.goto(f"{self.served.base}{path}")

    def show(self, tab: str, content: str) -> None:
        """A tab of a run, until what it is made of is there."""
        self.page.click(f"[data-tab={tab}]")
        self.page.wait_for_selector(f"#{tab} {content}")


@contextlib.contextmanager
def tab(browser: Browser, served: Served) -> Iterator[Tab]:
    """Opened with the token, as the printed address does."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        opened = Tab(page=context.new_page(), served=served)
        opened.open(f"/?token={served.access.token}")
        yield opened
    finally:
        context.close()
