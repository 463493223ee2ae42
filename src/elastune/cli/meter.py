"""Progress on stderr for whoever waits at a terminal; what is quickly done shows none."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from elastune.runs.campaign import CampaignProgress

_PATIENCE_S = 2.0


class Meter:
    """With several runs, how many are done; with one, its virtual time against deadline or prediction."""

    def __init__(self, before_each: Callable[[], None] = lambda: None) -> None:
        """`before_each` is called whenever there is progress, and may raise."""
        from rich.console import Console  # noqa: PLC0415

        self._console = Console(stderr=True)
        self._before_each = before_each
        self._begun_s = time.monotonic()
        self._bar: Bar | None = None
        self._waiting = self._console.status("planning")

    def __enter__(self) -> Self:
        self._waiting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.stop()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: CampaignProgress) -> None:
        self._before_each()
        self._waiting.stop()
        if not self._console.is_terminal or time.monotonic() - self._begun_s < _PATIENCE_S:
            return
        if self._bar is None:
            self._bar = _make_bar(self._console)
        total: float
        if progress.runs == 1:
            done, total = progress.now_s, max(_end_s(progress), progress.now_s)
        else:
            within = progress.now_s / progress.expected_s if progress.expected_s else 0.0
            done, total = progress.done + min(within, 1.0), progress.runs
        self._bar.update(
            self._bar.task_ids[0], completed=done, total=total, told=_told(progress), refresh=False
        )


def _make_bar(console: Console) -> Bar:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    bar = Progress(
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    bar.add_task("simulating", told="")
    bar.start()
    return bar


def _told(progress: CampaignProgress) -> str:
    from elastune.units import format_duration  # noqa: PLC0415

    if progress.runs > 1:
        return f"{progress.done} of {progress.runs} runs"
    told = f"{format_duration(progress.now_s)}, about {format_duration(progress.expected_s)} expected"
    if progress.deadline_s is None:
        return told
    return f"{told}, deadline {format_duration(progress.deadline_s)}"


def _end_s(progress: CampaignProgress) -> float:
    """What the bar is full at: a run may take longer than expected, hardly longer than its deadline."""
    return progress.expected_s if progress.deadline_s is None else progress.deadline_s
