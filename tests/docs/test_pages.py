"""Everything that a page shows as code is run, or the page says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.commands import ROOT, check_in_passing
from tests.docs.running import PageRun, all_pages
from tests.docs.snippets import Page, read_page

PAGES = [read_page(path) for path in all_pages()]


SHOWN_ELSEWHERE = tuple(
    f"docs/{name}.md"
    for name in (
        *("aws", "promises"),
        *("how-to/deadline", "how-to/deadline-and-budget", "how-to/policies", "how-to/simulate"),
    )
)
"""With the same commands as other pages, for other jobs that take long."""


def name_of(page: Page) -> str:
    return str(page.path.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if name_of(page) in SHOWN_ELSEWHERE else ())
        for page in PAGES
        if not page.own_tests
    ],
    ids=name_of,
)
def test_a_page_shows_what_happens(page: Page, tmp_path: Path) -> None:
    PageRun(page, tmp_path, slow=False).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.has_slow_parts and not page.own_tests], ids=name_of
)
def test_a_page_with_real_runs_works_from_top_to_bottom(page: Page, tmp_path: Path) -> None:
    PageRun(page, tmp_path, slow=True).run()


@pytest.mark.parametrize("page", [page for page in PAGES if page.own_tests], ids=name_of)
def test_a_page_with_a_test_of_its_own_is_named_there(page: Page) -> None:
    for each in page.own_tests:
        assert page.path.name in (ROOT / each).read_text(encoding="utf-8"), each


def test_commands_and_extras_in_passing_exist() -> None:
    counts = [check_in_passing(page.path.read_text(encoding="utf-8")) for page in PAGES]
    assert sum(counts) > 30
