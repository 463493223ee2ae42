"""The screen of a run that goes on."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest
from rich.console import Console

from elastune.cli.meters import Lines, Screen
from elastune.views.live.lines import bar, cell, spark
from tests.cli.live_scenes import SHA, Stage, drawn, scene_at


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, SHA)


def test_the_screen_has_time_money_stages_nodes_trials_what_comes_and_what_was(stage: Stage) -> None:
    snapshot = scene_at(stage, 60.0)
    text = "\n".join(drawn(snapshot))
    assert f"sphere {stage.record.run}  trains, stage {present(stage)} of 5" in text
    assert "1m00s of 1m40s  " in text
    assert "quoted  as planned, in the end about $" in text
    assert snapshot.best is not None
    assert f"best score {snapshot.best.metric:.5g} (trial {snapshot.best.trial}" in text
    for title in ("Stages", "Nodes", "Trials", "Next", "So far"):
        assert title in text
    assert f"▶ {present(stage)}" in text
    assert "✓ 1" in text
    assert f"★ {cell(str(snapshot.best.trial), -5)}" in text
    assert "stage 2 begins: 8 trials for 2 iterations; stage 1 took" in text


def present(stage: Stage) -> int:
    return stage.state.pool().stage + 1


def test_a_small_terminal_keeps_what_matters_and_a_large_one_shows_both_columns(stage: Stage) -> None:
    snapshot = scene_at(stage, 60.0)
    small = drawn(snapshot, 60, 12)
    assert len(small) <= 11
    assert any("time" in line for line in small)
    assert any("▶" in line for line in small)
    wide = drawn(snapshot, 140, 40)
    assert any("Stages" in line and "Trials" in line for line in wide)
    assert not any("Stages" in line and "Trials" in line for line in drawn(snapshot, 100, 40))


def test_many_nodes_become_a_mark_each(tmp_path: Path) -> None:
    cluster = {"slots_per_node": 2, "nodes": 12, "price_per_hour": 3.6, "init": 10}
    search = {"algorithm": "sha", "trials": 64, "max_iterations": 8, "eta": 2}
    job = {**SHA, "cluster": cluster, "search": search}
    stage = Stage(tmp_path, job)
    snapshot = scene_at(stage, 20.0)
    assert len(snapshot.nodes.lines) == 12
    assert "  ██████████▁▁" in drawn(snapshot, 80, 24)


def test_bars_cells_and_sparklines_have_the_width_that_was_asked_for() -> None:
    for share in (0.0, 0.3, 1.0, 1.7):
        for mark in (None, 0.0, 0.29, 0.31, 1.0, 2.0):
            assert len("".join(text for text, _ in bar(share, 20, "green", mark))) == 20
    assert [cell("abc", 5), cell("abc", -5), cell("abcdef", 4)] == ["abc  ", "  abc", "abc…"]
    assert spark([1.0, 2.0, 3.0], 5) == "  ▁▅█"
    assert spark([2.0, 2.0], 2) == "▁▁"
    assert spark([], 3) == "   "


def test_the_screen_is_drawn_seldom_and_leaves_the_terminal_as_it_was(stage: Stage) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, height=30, _environ={"TERM": "xterm"})
    with Screen(console, "starting", stage.clock) as screen:
        screen.begin(stage.opening)
        for at_s in (30.0, 30.1, 30.2, 31.0):
            stage.until(at_s)
            screen(stage.state)
        assert file.getvalue().count("sphere") == 2
        screen.say("something important")
        assert "something important" not in file.getvalue()  # it may have come in the middle of a redraw
        stage.until(31.1)
        screen(stage.state)
        assert "something important" in file.getvalue()
        assert "\x1b[?25l" in file.getvalue()
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")


def test_lines_tell_changes_as_they_come_and_the_standing_less_and_less_often(stage: Stage) -> None:
    file = io.StringIO()
    lines = Lines(Console(file=file, width=60), stage.clock)
    lines.announce("starting Ray")
    lines.begin(stage.opening)
    while stage.state.ended is None:
        stage.until(stage.now_s + 0.25)
        lines(stage.state)
    lines(stage.state)  # the run shows its last state once more
    first, *told = file.getvalue().splitlines()
    assert first == "starting Ray"
    assert "  0.2 s  stage 1 begins: 16 trials for 1 iteration" not in told  # by the run's clock, not by ours
    assert told[0] == "  0.0 s  stage 1 begins: 16 trials for 1 iteration"
    assert any(line.endswith("nodes boot") for line in told)
    assert any("stage 2 begins: 8 trials for 2 iterations; stage 1 took" in line for line in told)
    assert told[-2].endswith("the run has ended: complete")
    standing = [line for line in told if " training, " in line]
    assert standing[-1] == told[-1]
    assert "0 of 16 trials training, 16 done" in told[-1]
    at_s = [seconds_of(line) for line in standing]
    gaps_s = [later - sooner for sooner, later in itertools.pairwise(at_s[:-1])]
    assert at_s[0] == 5.0
    assert gaps_s == sorted(gaps_s)
    assert gaps_s[-1] > gaps_s[0] == 5.0
    best = [line for line in told if "best score" in line and " training, " not in line]
    assert 1 < len(best) <= stage.now_s / 5 + 2


def seconds_of(line: str) -> float:
    """Of the time in front: ` 42.5 s` or `  1m05s`."""
    time = line[:7].strip()
    minutes, _, seconds = time.removesuffix("s").rpartition("m")
    return 60 * float(minutes or 0) + float(seconds)


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str, /) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("kind", [Screen, Lines])
def test_a_run_goes_on_when_nobody_can_see_it_any_more(kind: type, stage: Stage) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, height=30, _environ={"TERM": "xterm"})
    meter = Screen(console, "starting", stage.clock) if kind is Screen else Lines(console, stage.clock)
    with meter:
        meter.begin(stage.opening)
        stage.until(20.0)
        meter(stage.state)
        console.file = Gone()
        meter.say("something important")
        for at_s in (40.0, 60.0):
            stage.until(at_s)
            meter(stage.state)
    assert file.getvalue()
