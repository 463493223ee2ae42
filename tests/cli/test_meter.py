"""What is shown to whoever waits."""

from __future__ import annotations

import signal
import threading

import pytest

from elastune.cli import meters as meter
from elastune.cli.terminal import Stopping
from elastune.runs.campaign import CampaignProgress
from elastune.views.live.spectator import waiting


@pytest.mark.parametrize(
    ("progress", "told", "full_at_s"),
    [
        (CampaignProgress(0, 1, 90.0, 600.0, None), "1m30s, about 10m00s expected", 600.0),
        (
            CampaignProgress(0, 1, 90.0, 600.0, 1200.0),
            "1m30s, about 10m00s expected, deadline 20m00s",
            1200.0,
        ),
        (CampaignProgress(3, 20, 90.0, 600.0, 1200.0), "3 of 20 runs", 1200.0),
    ],
)
def test_one_run_is_measured_by_its_deadline_or_else_by_what_is_expected(
    progress: CampaignProgress, told: str, full_at_s: float
) -> None:
    assert meter._progress_text(progress) == told
    assert meter._end_s(progress) == full_at_s


def test_the_first_ctrl_c_waits_for_a_safe_point_and_the_second_does_not() -> None:
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    with Stopping() as stopping:
        stopping.check()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stopping.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_before_anything_runs_ctrl_c_ends_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Stopping():
        signal.raise_signal(signal.SIGINT)


def test_what_takes_long_is_said_and_said_again_and_what_is_quick_is_not() -> None:
    said: list[str] = []
    again = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            again.set()

    with waiting(say, "planning", first_s=0.001, again_s=0.001):
        assert again.wait(60.0)
    assert said[0] == "planning"
    assert said[1].startswith("still planning, ")
    quick: list[str] = []
    with waiting(quick.append, "planning", first_s=3600.0):
        pass
    assert not quick
