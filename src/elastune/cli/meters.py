"""Progress on stderr for whoever waits at a terminal; what is quickly done shows none.

How a real run stands, on stderr: a screen at a terminal, lines elsewhere, nothing for who wants quiet.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Protocol, Self, cast

from elastune.cli.terminal import OutputQueue

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress as Bar

    from elastune.core.state import State
    from elastune.runs.campaign import CampaignProgress
    from elastune.views.live.panel import LivePanel
    from elastune.views.live.snapshot import Snapshot
    from elastune.views.live.spectator import Opening, View


_PATIENCE_S = 2.0


class ProgressMeter:
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
    from elastune.wording import format_duration  # noqa: PLC0415

    if progress.runs > 1:
        return f"{progress.done} of {progress.runs} runs"
    told = f"{format_duration(progress.now_s)}, about {format_duration(progress.expected_s)} expected"
    if progress.deadline_s is None:
        return told
    return f"{told}, deadline {format_duration(progress.deadline_s)}"


def _end_s(progress: CampaignProgress) -> float:
    """What the bar is full at: a run may take longer than expected, hardly longer than its deadline."""
    return progress.expected_s if progress.deadline_s is None else progress.deadline_s


# Four times per second at most; and so seldom that drawing takes no more than a two-hundredth of the time.
_REDRAW_EVERY_S = 0.25
_PATIENCE = 200.0
_MOST_PATIENCE_S = 2.0
# Where nothing has happened, only the clock goes on.
_CLOCK_EVERY_S = 1.0


class RunMeter(Protocol):
    """`elastune.runs.live.Spectator`, for as long as somebody looks."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self, opening: Opening) -> None: ...

    def __call__(self, state: State) -> None: ...

    def say(self, text: str) -> None:
        """What everybody has to know, also whoever wants quiet."""


def open_meter(
    *, quiet: bool = False, plain: bool = False, waiting: str = "starting the cluster"
) -> RunMeter:
    """`waiting` is what goes on until the run begins."""
    from rich.console import Console  # noqa: PLC0415

    courier = OutputQueue(sys.stderr)
    console = Console(file=cast("IO[str]", courier), highlight=False, markup=False, emoji=False)
    if quiet:
        return Silence(console)
    return Lines(console) if plain or not _can_draw_on(console) else Screen(console, waiting)


def _settle(console: Console) -> None:
    if isinstance(console.file, OutputQueue):
        console.file.settle()


def _is_behind(console: Console) -> bool:
    return isinstance(console.file, OutputQueue) and console.file.is_behind


def _can_draw_on(console: Console) -> bool:
    """A build server may say that it is a terminal; what is drawn there fills its log."""
    knows_marks = console.encoding.lower().startswith("utf")
    return console.is_terminal and not console.is_dumb_terminal and knows_marks and not os.environ.get("CI")


class Silence:
    """What cannot be shown, because the terminal or the pipe is gone, is not: the run goes on."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _settle(self._console)

    def begin(self, opening: Opening) -> None:
        pass

    def __call__(self, state: State) -> None:
        pass

    def say(self, text: str) -> None:
        with suppress(OSError):
            self._console.file.write(f"{text}\n")
            self._console.file.flush()


class Lines(Silence):
    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        from elastune.views.live.spectator import LineLog  # noqa: PLC0415

        self._log = LineLog(self.say, clock)

    def begin(self, opening: Opening) -> None:
        self._log.begin(opening)

    def __call__(self, state: State) -> None:
        self._log(state)


class Screen(Silence):
    """Drawn by the driver itself, between two beats; brought to the terminal by a thread, and left out while
    the terminal takes nothing."""

    def __init__(self, console: Console, waiting: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        self._waiting = waiting
        self._clock = clock
        self._stack = ExitStack()
        self._view: View | None = None
        self._live: Live | None = None
        self._draw: Callable[[Snapshot], LivePanel]
        self._said: list[str] = []
        self._next_s = 0.0
        self._events = -1
        self._next_tick_s = 0.0

    def __enter__(self) -> Self:
        self._stack.enter_context(self._console.status(self._waiting))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live = None
        with suppress(OSError):
            self._stack.close()
        self._speak()
        _settle(self._console)

    def begin(self, opening: Opening) -> None:
        from rich.live import Live  # noqa: PLC0415

        from elastune.views.live.panel import LivePanel  # noqa: PLC0415
        from elastune.views.live.spectator import View  # noqa: PLC0415

        self._stack.close()  # a job that is measured first has two runs
        self._view, self._draw = View(opening, self._clock), LivePanel
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._stack.enter_context(self._live)
        self._events, self._next_s = -1, 0.0

    def say(self, text: str) -> None:
        """Called by a signal, too, perhaps in the middle of a redraw: then it waits for the next beat."""
        self._said.append(text)
        if self._live is None:
            self._speak()

    def __call__(self, state: State) -> None:
        if self._said:
            self._speak()
        now_s = self._clock()
        is_due = now_s >= self._next_s and (state.events != self._events or now_s >= self._next_tick_s)
        if self._live is None or self._view is None or not is_due or _is_behind(self._console):
            return
        try:
            self._live.update(self._draw(self._view.look(state)), refresh=True)
        except OSError:
            self._live = None
        took_s = self._clock() - now_s
        self._events = state.events
        self._next_s = now_s + min(_MOST_PATIENCE_S, max(_REDRAW_EVERY_S, _PATIENCE * took_s))
        self._next_tick_s = now_s + _CLOCK_EVERY_S

    def _speak(self) -> None:
        """Above the screen, if there is one."""
        said, self._said = self._said, []
        with suppress(OSError):
            for text in said:
                self._console.print(text, soft_wrap=True)
