"""Page fixes that mkdocs does not make, so that the pages also read well in the repository.

A fence that names its file (```yaml job.yaml) gets a title. Links to examples outside of `docs` lead to
copies in the site. Marks for the tests of the pages are removed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *```\w+) ([\w.-]+)$", re.MULTILINE)
_MARK = re.compile(r"<!-- test: .*?-->\n?", re.DOTALL)
_FOLDER = re.compile(r"\[([^\]]+)\]\((?:\.\./)+examples\)")
_OUTSIDE = re.compile(r"\]\((?:\.\./)+(examples/[\w.-]+)\)")


def on_files(files: Files, config: Any) -> Files:
    for path in sorted((_ROOT / "examples").glob("*.*")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    markdown = _FOLDER.sub(r"\1", _MARK.sub("", markdown))
    markdown = _OUTSIDE.sub(rf"]({up}\1)", markdown)
    return _FENCE.sub(r'\1 title="\2"', markdown)
