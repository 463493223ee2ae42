"""What is shown to whoever waits."""

from __future__ import annotations

import signal
import threading

import pytest

from elastune.cli import meters as meter
from elastune.cli.terminal import Stopping
from elastune.runs.campaign import CampaignProgress


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
