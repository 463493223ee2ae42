"""A real run, looked at through a real terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from elastune.api.foreground import said, watching
from elastune.cli.meters import Lines, RunMeter, Screen, open_meter
from elastune.core.state import State
from elastune.views.live.spectator import LineLog, Opening
from tests.cli.commands import elastune
from tests.cli.live_scenes import SHA, Stage
from tests.runtime.real.runs import job_of

HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"CI", "NO_COLOR"}}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", **changes}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "elastune", *arguments]


def seen_until_ctrl_c(folder: Path, gate: Path) -> tuple[bytes, int]:
    """What the terminal got; Ctrl-C comes when trials train, and they go on when it was heard."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("run", "job.yaml", "--no-check"),
        cwd=folder,
        env=environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        seen, asked = b"", False
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
            seen += piece
            if not asked and b"trains" in seen:
                asked = True
                process.send_signal(signal.SIGINT)
            if b"saving everything" in seen:
                gate.touch()
        code = process.wait()
    os.close(ours)
    return seen, code


def test_a_run_at_a_terminal_has_a_screen_and_after_ctrl_c_goes_on_with_lines(tmp_path: Path) -> None:
    gate = tmp_path / "go"
    held = {"gate": {"choice": [str(gate)]}, "held_at": {"choice": [3]}}
    job = job_of(space={"x": {"float": [0.0, 1.0]}, "sleep": {"choice": [0.3]}, **held})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job.to_dict()), encoding="utf-8")
    seen, code = seen_until_ctrl_c(tmp_path, gate)
    assert code == 130
    for word in (b"Stages", b"Nodes", b"Trials", b"Next", b"as planned"):
        assert word in seen
    assert HIDE in seen
    assert seen.rindex(SHOW) > seen.rindex(HIDE)
    assert b"continue with: elastune resume" in seen[seen.rindex(SHOW) :]
    assert seen.count(b"saving everything and releasing the nodes") == 1

    done = subprocess.run(
        command("resume", "last", "--plain"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stderr
    told = done.stderr.splitlines()
    assert any("driver: Elastune was down for" in line for line in told)
    assert any("node is up" in line or "nodes are up" in line for line in told)
    assert not any("stage 1 begins" in line for line in told)  # that was before
    assert "complete" in done.stdout

    looked = elastune("status", "last", "--watch", cwd=tmp_path)
    assert looked.returncode == 0
    assert "complete" in looked.stdout
    known = json.loads(elastune("status", "last", "--json", cwd=tmp_path).stdout)
    assert known["startup_seconds"] > 0.0
    assert known["deadline_seconds"] + known["startup_seconds"] == pytest.approx(3600.0)  # from the command
    both = elastune("status", "last", "--watch", "--json", cwd=tmp_path)
    assert both.returncode == 2


@pytest.mark.parametrize(("quiet", "plain", "kind"), [(True, False, RunMeter), (False, True, Lines)])
def test_who_wants_no_screen_gets_none(quiet: bool, plain: bool, kind: type) -> None:
    assert type(open_meter(quiet=quiet, plain=plain)) is kind


@pytest.mark.parametrize(
    ("variables", "kind"),
    [({"TERM": "xterm"}, Screen), ({"TERM": "dumb"}, Lines), ({"TERM": "xterm", "CI": "true"}, Lines)],
)
def test_a_screen_needs_a_terminal_that_can_be_drawn_on(
    variables: dict[str, str], kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes a terminal of anything
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert type(open_meter()) is kind


class Looks:
    """A watch that wants to know at what it looks."""

    def __init__(self) -> None:
        self.openings: list[Opening] = []
        self.states: list[State] = []

    def begin(self, opening: Opening) -> None:
        self.openings.append(opening)

    def __call__(self, state: State) -> None:
        self.states.append(state)


def test_in_python_lines_come_unless_the_caller_looks_or_wants_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(watching(None, None), LineLog)  # in a pipe, too
    assert watching(None, False) is None
    assert isinstance(watching(None, True), LineLog)
    mine = Looks()
    assert watching(mine, None) is mine
    both = watching(mine, True)
    stage = Stage(tmp_path, SHA)
    stage.until(20.0)
    assert both is not None
    both.begin(stage.opening)  # type: ignore[attr-defined]
    both(stage.state)
    assert mine.states == [stage.state]
    assert len(mine.openings) == 1
    said(both)("starting Ray")
    told = capsys.readouterr().err
    assert "stage 1 begins: 16 trials for 1 iteration" in told
    assert told.endswith("starting Ray\n")


def test_lines_are_in_the_order_of_time(tmp_path: Path) -> None:
    """A stage has a time of its own, and events reach the view some tenths of a second after their time."""
    lines: list[str] = []
    stage = Stage(tmp_path, SHA, faults="mild")
    log = LineLog(lines.append, stage.clock)
    log.begin(stage.opening)
    while stage.state.ended is None:
        log(stage.state)
        at_s = stage.now_s + 0.7
        stage.until(at_s - 0.4)
        stage.now_s = at_s
    log(stage.state)
    assert any("stage 2 begins" in line for line in lines)
    assert sum("best " in line for line in lines) > 2
    texts = [line.split("  ", 2) for line in (each.strip() for each in lines)]
    times = [seconds(text[0]) for text in texts]
    assert times == sorted(times), lines


def seconds(clock: str) -> float:
    """`12.0 s` or `1m05s`."""
    minutes, _, rest = clock.rpartition("m")
    return 60 * float(minutes or 0) + float(rest.rstrip("s "))
