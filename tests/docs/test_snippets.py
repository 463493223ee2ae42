"""Nothing that a page shows is left out silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.commands import check_names, shell_commands
from tests.docs.running import PageRun
from tests.docs.snippets import Snippet, read_page


def write(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def run(folder: Path, text: str) -> None:
    PageRun(read_page(write(folder, text)), folder, slow=False).run()


def test_a_mark_is_about_the_fence_right_after_it(tmp_path: Path) -> None:
    page = read_page(
        write(tmp_path, "<!-- test: slow: a real run -->\n```console\n$ x\n```\n```text\ny\n```\n")
    )
    first, second = page.pieces
    assert isinstance(first, Snippet)
    assert isinstance(second, Snippet)
    assert (first.is_slow, second.is_slow) == (True, False)
    assert second.follows


@pytest.mark.parametrize(
    "text",
    [
        "<!-- test: skip -->\n```python\n1 / 0\n```\n",
        "<!-- test: sometimes: why not -->\n```python\n1 / 0\n```\n",
        "<!-- test: skip: far away -->\nwords\n```python\n1 / 0\n```\n",
        "<!-- test: skip: nothing -->\n",
    ],
    ids=["without a reason", "of an unknown kind", "away from its fence", "without a fence"],
)
def test_a_mark_that_is_not_understood_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(AssertionError):
        read_page(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\n1 / 0\n```\n", ZeroDivisionError),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", AssertionError),
        ("```console\n$ elastune plan nothing.yaml\nCheapest plan\n```\n", AssertionError),
        ("```console\n$ make nothing\n```\n", AssertionError),
        ("```bash\nrm -r elastune-runs\n```\n", AssertionError),
        ("```fortran\nEND\n```\n", KeyError),
    ],
    ids=["code that raises", "other output", "a command that fails", "no such target", "unknown", "language"],
)
def test_what_is_wrong_in_a_page_is_found(tmp_path: Path, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        run(tmp_path, text)


def test_output_may_be_left_out_where_the_page_says_so(tmp_path: Path) -> None:
    run(tmp_path, "```python\nfor n in range(9):\n    print(n)\n```\n\n```text\n0\n...\n8\n```\n")


def test_commands_of_others_have_to_name_what_exists() -> None:
    (first, second) = shell_commands(
        "A=1 pip install '.[ray,torch]' && python -m benchmarks.policies  # all\n"
    )
    check_names(first[1:])
    check_names(second)
    with pytest.raises(AssertionError, match="no such extra"):
        check_names(["pip", "install", "elastune[quantum]"])
