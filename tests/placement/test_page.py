"""What the page about placement shows is what happens."""

from __future__ import annotations

import contextlib
import io

from tests.test_documents import ROOT, blocks

PAGE = (ROOT / "docs" / "placement.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_shows() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks(PAGE, "python")[0], "example", "exec"), {})
    assert printed.getvalue() == blocks(PAGE, "text")[0]
