"""Progress on stderr: a bar for simulations; for real runs a screen at a terminal, lines elsewhere.

Neither must stop a run: output goes through a queue, and if the terminal or pipe is gone it is dropped.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING, Self, cast

from elastune.cli.terminal import OutputQueue

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress as Bar
    from rich.status import Status

    from elastune.core.state import State
    from elastune.runs.campaign import CampaignProgress
    from elastune.views.live.panel import LivePanel
    from elastune.views.live.snapshot import Snapshot
    from elastune.views.live.spectator import Opening, View

# A simulation shorter than this shows no bar.
_BAR_AFTER_S = 2.0
# A screen is redrawn four times per second at most, and uses at most a two-hundredth of the time.
_REDRAW_EVERY_S = 0.25
_REDRAW_PAUSE = 200.0
_MOST_REDRAW_PAUSE_S = 2.0
# Without events, only the clock is redrawn.
_CLOCK_EVERY_S = 1.0


class ProgressMeter:
    """With several runs, how many are done; with one, its virtual time against deadline or prediction."""

    def __init__(self, before_each: Callable[[], None] = lambda: None) -> None:
        """`before_each` is called on every progress, and may raise."""
        from rich.console import Console  # noqa: PLC0415

        self._console = Console(stderr=True)
        self._before_each = before_each
        self._begun_s = time.monotonic()
        self._bar: Bar | None = None
        self._waiting = self._console.status("planning")

    def __enter__(self) -> Self:
        self._waiting.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._waiting.stop()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: CampaignProgress) -> None:
        self._before_each()
        self._waiting.stop()
        if not self._console.is_terminal or time.monotonic() - self._begun_s < _BAR_AFTER_S:
            return
        if self._bar is None:
            self._bar = _make_bar(self._console)
        total: float
        if progress.runs == 1:
            done, total = progress.now_s, max(_end_s(progress), progress.now_s)
        else:
            within = progress.now_s / progress.expected_s if progress.expected_s else 0.0
            done, total = progress.done + min(within, 1.0), progress.runs
        text = _progress_text(progress)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, text=text, refresh=False)


def _make_bar(console: Console) -> Bar:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task("simulating", text="")
    bar.start()
    return bar


def _progress_text(progress: CampaignProgress) -> str:
    from elastune.wording import format_duration  # noqa: PLC0415

    if progress.runs > 1:
        return f"{progress.done} of {progress.runs} runs"
    text = f"{format_duration(progress.now_s)}, about {format_duration(progress.expected_s)} expected"
    if progress.deadline_s is None:
        return text
    return f"{text}, deadline {format_duration(progress.deadline_s)}"


def _end_s(progress: CampaignProgress) -> float:
    """Where the bar is full: a run may take longer than expected, but hardly longer than its deadline."""
    return progress.expected_s if progress.deadline_s is None else progress.deadline_s


def open_meter(
    *, quiet: bool = False, plain: bool = False, waiting: str = "starting the cluster"
) -> RunMeter:
    """`waiting` is shown until the run begins."""
    from rich.console import Console  # noqa: PLC0415

    file = cast("IO[str]", OutputQueue(sys.stderr))
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    if quiet:
        return RunMeter(console)
    return Lines(console) if plain or not _can_draw_on(console) else Screen(console, waiting)


def _can_draw_on(console: Console) -> bool:
    """A build server may claim to be a terminal; redraws would fill its log."""
    is_utf = console.encoding.lower().startswith("utf")
    return console.is_terminal and not console.is_dumb_terminal and is_utf and not os.environ.get("CI")


class RunMeter:
    """A `Spectator` of a real run. This one is quiet: it only prints what is said."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if isinstance(self._console.file, OutputQueue):
            self._console.file.settle()

    def announce(self, text: str) -> None:
        pass

    def begin(self, opening: Opening) -> None:
        pass

    def __call__(self, state: State) -> None:
        pass

    def say(self, text: str) -> None:
        """A message that every meter shows, also the quiet one."""
        with suppress(OSError):
            self._console.file.write(f"{text}\n")
            self._console.file.flush()


class Lines(RunMeter):
    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        from elastune.views.live.spectator import LineLog  # noqa: PLC0415

        self._log = LineLog(self.say, clock)

    def announce(self, text: str) -> None:
        self._log.announce(text)

    def begin(self, opening: Opening) -> None:
        self._log.begin(opening)

    def __call__(self, state: State) -> None:
        self._log(state)


class Screen(RunMeter):
    """Redrawn by the driver itself; a redraw is skipped while earlier output is still queued."""

    def __init__(self, console: Console, waiting: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        self._waiting = waiting
        self._clock = clock
        self._stack = ExitStack()
        self._view: View | None = None
        self._status: Status | None = None
        self._live: Live | None = None
        self._draw: Callable[[Snapshot], LivePanel]
        self._messages: list[str] = []
        self._next_s = 0.0
        self._events = -1
        self._next_tick_s = 0.0

    def __enter__(self) -> Self:
        self._status = self._stack.enter_context(self._console.status(self._waiting))
        return self

    def announce(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)

    def __exit__(self, *error: object) -> None:
        self._live = None
        with suppress(OSError):
            self._stack.close()
        self._print_messages()
        super().__exit__(*error)

    def begin(self, opening: Opening) -> None:
        from rich.live import Live  # noqa: PLC0415

        from elastune.views.live.panel import LivePanel  # noqa: PLC0415
        from elastune.views.live.spectator import View  # noqa: PLC0415

        self._stack.close()  # of the run before: a job may be measured first
        self._status = None
        self._view, self._draw = View(opening, self._clock), LivePanel
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._stack.enter_context(self._live)
        self._events, self._next_s = -1, 0.0

    def say(self, text: str) -> None:
        """A signal handler may call this during a redraw: then the message waits for the next call."""
        self._messages.append(text)
        if self._live is None:
            self._print_messages()

    def __call__(self, state: State) -> None:
        if self._messages:
            self._print_messages()
        now_s = self._clock()
        is_due = now_s >= self._next_s and (state.events != self._events or now_s >= self._next_tick_s)
        is_behind = isinstance(self._console.file, OutputQueue) and self._console.file.is_behind
        if self._live is None or self._view is None or not is_due or is_behind:
            return
        try:
            self._live.update(self._draw(self._view.look(state)), refresh=True)
        except OSError:
            self._live = None
        took_s = self._clock() - now_s
        self._events = state.events
        self._next_s = now_s + min(_MOST_REDRAW_PAUSE_S, max(_REDRAW_EVERY_S, _REDRAW_PAUSE * took_s))
        self._next_tick_s = now_s + _CLOCK_EVERY_S

    def _print_messages(self) -> None:
        """Above the screen, if there is one."""
        messages, self._messages = self._messages, []
        with suppress(OSError):
            for text in messages:
                self._console.print(text, soft_wrap=True)
