"""YAML as data with lines, and the surprises of YAML 1.1 that it avoids."""

from __future__ import annotations

import pytest

from elastune.errors import JobError
from elastune.job.document import read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001), ("010", 10), ("1:30", "1:30"), ("20:00", "20:00"), ("1.5h", "1.5h"), ("$30", "$30"),
        ("yes", "yes"), ("true", True), ("~", None), ("", None), ("'12'", "12"), ('"null"', "null"),
        ("-7", -7),
        (".5", 0.5), ("2024-01-01", "2024-01-01"), (".nan", ".nan"), ("1_000", "1_000"), ("[1, a]", [1, "a"]),
    ],
)  # fmt: skip
def test_scalars_mean_what_people_think(text: str, value: object) -> None:
    assert read_yaml(f"key: {text}", "job.yaml").value == {"key": value}


def test_a_number_of_thousands_of_digits_is_read_without_complaint() -> None:
    assert read_yaml("9" * 5000, "job.yaml").value == float("inf")


def test_keys_are_text_and_lines_are_found_by_path() -> None:
    document = read_yaml("a:\n  1: x\n  b:\n    - y\n    - z\n", "job.yaml")
    assert document.value == {"a": {"1": "x", "b": ["y", "z"]}}
    assert document.line_of(()) is None
    assert document.line_of(("a", "1")) == 2
    assert document.line_of(("a", "b", "1")) == 5
    assert document.line_of(("a", "missing", "deeper")) == 1
    assert document.line_of(("missing",)) is None


def test_an_alias_stands_for_what_it_names() -> None:
    assert read_yaml("a: &x {n: 1}\nb: *x\n", "job.yaml").value == {"a": {"n": 1}, "b": {"n": 1}}


def test_aliases_of_aliases_that_would_fill_the_memory_are_refused() -> None:
    def nested(depth: int) -> str:
        rows = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, depth)]
        return "\n".join(["a0: &a0 [x]", *rows])

    assert isinstance(read_yaml(nested(4), "job.yaml").value, dict)
    with pytest.raises(JobError, match=r"line 6: its aliases stand for more than 100,000 values"):
        read_yaml(nested(30), "job.yaml")
    long = "a: [" + "x, " * 300_000 + "x]"
    assert isinstance(read_yaml(long, "job.yaml").value, dict)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "job.yaml, line 3: 'a' is given twice, first in line 1"),
        ("a: {b: 1, b: 2}\n", "job.yaml, line 1: 'b' is given twice, first in line 1"),
        ("a:\n\tb: 1\n", "job.yaml, line 2: YAML is indented with spaces, this line has a tab"),
        ("a: 1\n\tb: 1\n", "job.yaml, line 2: YAML is indented with spaces, this line has a tab"),
        ("a: [1, 2\nb: 3\n", "job.yaml, line 2: not valid YAML: "),
        ("a: b: c\n", "job.yaml, line 1: not valid YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2\n", "job.yaml, line 2: not valid YAML: but found another document"),
        ("a: *nowhere\n", "job.yaml, line 1: not valid YAML: found undefined alias 'nowhere'"),
        ("a: &x [*x]\n", "job.yaml, line 1: an alias refers to a mapping or list that it is part of"),
        ("a: !!python/object:os.system {}\n", "job.yaml, line 1: the tag tag:yaml.org,2002:python/object"),
        ("a: !!int abc\n", "job.yaml, line 1: the tag tag:yaml.org,2002:int has no meaning in a job"),
        ("? [a]\n: 1\n", "job.yaml, line 1: a list or mapping cannot be a key"),
        ("a: \x07\n", "job.yaml: not valid YAML: special characters are not allowed"),
        ("[" * 5000, "job.yaml: nested too deeply for a job"),
    ],
)
def test_bad_yaml_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(JobError) as caught:
        read_yaml(text, "job.yaml")
    assert str(caught.value).startswith(message)
