"""The page about the job file shows what really happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from elastune.errors import JobError
from elastune.job.cluster import ClusterSection, KindSection
from elastune.job.data import DataSection
from elastune.job.document import read_yaml
from elastune.job.job import Job, load_job
from elastune.job.job_keys import SlotSection
from elastune.job.measurement_files import read_measurements
from elastune.job.profile import CheckpointSection, ProfileSection
from elastune.job.sampling import SamplerSection
from elastune.job.search import SEARCHES
from elastune.job.section import Section
from elastune.job.trainable import CurvesSection
from elastune.job.warm_start import WarmStartSection
from elastune.providers.ec2.calls import Ec2Options
from elastune.space.function_space import FunctionSpace
from elastune.space.parsing import parse_space
from elastune.space.plain_samplers import RandomSampler
from tests.docs.running import without_aws
from tests.documents import run_page

PATH = Path(__file__).parents[2] / "docs" / "job-file.md"
PAGE = PATH.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(yaml|json|text)\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_example_is_a_job() -> None:
    language, text = BLOCKS[0]
    assert language == "yaml"
    assert Job.from_yaml_text(text).deadline == 1200.0


def test_the_examples_of_spaces_are_spaces() -> None:
    counts = []
    for text in (text for _, text in BLOCKS if text.startswith("space:")):
        document = read_yaml(text, "page").value
        assert isinstance(document, dict)
        counts.append(len(parse_space(document["space"]).domains))
    assert counts == [8, 5, 3, 5, 4]


def test_the_example_of_start_configurations_goes_with_that_of_conditions() -> None:
    starts = next(text for _, text in BLOCKS if text.startswith("start_configurations:"))
    space = next(text for _, text in BLOCKS if text.startswith("space:\n  optimizer:"))
    job = Job.from_yaml_text(BLOCKS[0][1] + space + starts)
    assert job.start_configurations == ({"optimizer": "sgd", "lr": 0.1, "momentum": 0.9}, {"lr": 0.01})


def test_the_example_of_a_function_suggests() -> None:
    source = next(re.finditer(r"```python\n(def suggest.*?)```", PAGE, re.DOTALL))[1]
    found: dict[str, Callable[..., object]] = {}
    exec(source, found)
    config = RandomSampler(FunctionSpace(function=found["suggest"], name="suggest"), seed=0).ask(0)
    assert config["epochs"] == 5


def test_both_forms_of_measurements_can_be_read(tmp_path: Path) -> None:
    for text in [text for language, text in BLOCKS if language == "json"][:2]:
        path = tmp_path / "speeds.json"
        path.write_text(text, encoding="utf-8")
        assert read_measurements(path).speedup.largest == 4


def test_the_messages_are_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"yaml": "job.yaml", "json": "speeds.json"}
    shown = 0
    for language, text in BLOCKS:
        if language == "text":
            with pytest.raises(JobError) as caught:
                load_job("job.yaml")
            assert str(caught.value) == text.rstrip("\n")
            shown += 1
        else:
            Path(names[language]).write_text(text, encoding="utf-8")
    assert shown == 3


def test_every_key_is_in_a_table() -> None:
    sections: list[type[Section]] = [
        Job, ClusterSection, ProfileSection, CheckpointSection, SamplerSection, SlotSection, CurvesSection,
        DataSection, WarmStartSection,
        *SEARCHES.values(),
    ]  # fmt: skip
    for section in sections:
        for key in section.model_fields:
            assert f"\n| `{key}` |" in PAGE, key


def table_of(anchor: str) -> str:
    """The first table after an anchor."""
    return PAGE.partition(f'<a id="{anchor}"></a>')[2].partition("|---")[2].partition("\n\n")[0]


def test_every_option_of_ec2_is_in_its_table_with_its_default() -> None:
    for name, field in Ec2Options.model_fields.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", table_of("ec2"), re.MULTILINE)
        default = row.split(" | ")[2]
        if field.is_required():
            assert default == "required", name
        elif isinstance(field.default, float):
            assert default == f"{field.default:g}", name
        elif isinstance(field.default, str):
            assert field.default in default, name


def test_every_key_of_a_kind_is_in_its_table() -> None:
    for key in KindSection.model_fields:
        assert f"`{key}`" in table_of("kinds"), key


def test_the_example_of_kinds_is_quoted_as_the_page_shows(tmp_path: Path) -> None:
    """If the numbers have changed for a good reason: python -m tests.documents docs/job-file.md"""
    with without_aws():
        (quoted,) = run_page(PATH, tmp_path)
    assert quoted.shown == quoted.fitted()
