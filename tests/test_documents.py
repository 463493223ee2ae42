"""What README and docs show is what happens."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import elastune
from tests.documents import run_page

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLANNING = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
SIMULATING = ROOT / "docs" / "simulating.md"
POLICIES = ROOT / "docs" / "policies.md"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run(command: list[str], folder: Path) -> list[str]:
    done = elastune(*command[1:], cwd=folder)
    return [line.rstrip() for line in (done.stdout + done.stderr).rstrip().splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    job = blocks(README, "yaml")[0]
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
    (tmp_path / "hurry.yaml").write_text(job.replace("deadline: 20m", "deadline: 12m"), encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def test_the_plan_is_printed_as_the_readme_shows_it() -> None:
    block = next(each for each in blocks(README, "console") if each.startswith("$ make plan"))
    shown = block.rstrip().splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    command = re.search(r"\nplan:.*\n\t\$\(BIN\)/(.+)\n", makefile)
    assert command is not None
    assert run(command[1].split(), ROOT) == shown[1:]


def test_the_other_commands_of_the_readme_print_what_it_shows(folder: Path) -> None:
    checked = 0
    for block in blocks(README, "console")[1:]:
        for command, output in re.findall(r"\$ (elastune [^\n#]+?)(?: +#[^\n]*)?\n((?:[^$].*\n)*)", block):
            printed = run(command.split(), folder)
            assert printed, command
            assert printed[0].startswith("error:") == ("hurry" in command), printed
            shown = output.rstrip().splitlines()
            if shown[-1] == "...":
                shown = shown[:-1]
                printed = printed[: len(shown)]
            assert printed == shown
            checked += 1
    assert checked == 10
    assert (folder / "plan.png").exists()


@pytest.mark.parametrize("code", blocks(README, "python") + blocks(PLANNING, "python"))
def test_the_python_examples_run(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {})
    assert printed.getvalue().strip()


def test_the_page_about_policies_shows_what_happens(tmp_path: Path) -> None:
    """If the numbers have changed for a good reason: python -m tests.documents docs/policies.md"""
    commands = list(run_page(POLICIES, tmp_path))
    assert len(commands) == 2
    for each in commands:
        assert each.shown == each.fitted(), each.command


def test_the_page_about_simulating_shows_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the numbers have changed for a good reason: python -m tests.documents docs/simulating.md"""
    commands = list(run_page(SIMULATING, tmp_path))
    assert len(commands) == 6
    for each in commands:
        assert each.shown == each.fitted(), each.command
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    code = blocks(SIMULATING.read_text(encoding="utf-8"), "python")[-1]
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {})
    assert len(printed.getvalue().splitlines()) == 3


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
