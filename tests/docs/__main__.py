"""`python -m tests.docs docs/index.md [--slow]` writes what is printed now into the page."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.running import PageRun
from tests.docs.snippets import read_page


class _Refresh(PageRun):
    """Takes what came, whatever it is."""

    def __init__(self, path: Path, folder: Path, *, slow: bool) -> None:
        super().__init__(read_page(path), folder, slow=slow)

    def _compare(self, *arguments: object) -> None:
        slow, self.slow = self.slow, True
        super()._compare(*arguments)  # type: ignore[arg-type]
        self.slow = slow


def refresh(path: Path, *, slow: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = _Refresh(path.resolve(), Path(folder), slow=slow)
        page.run()
    text = path.read_text(encoding="utf-8")
    for each in sorted(page.shown, key=lambda shown: -shown.start):
        if each.shown:
            text = text[: each.start] + "".join(f"{line}\n" for line in each.fitted()) + text[each.end :]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    refresh(Path(sys.argv[1]), slow="--slow" in sys.argv)
