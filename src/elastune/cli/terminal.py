"""A terminal or a pipe that stands still must not stop the run that is shown there.

Printing for people: nothing of what a run or a user wrote is taken for markup, and every terminal can
show it.

Ctrl-C in a long command: the first one ends it where nothing is half done, a second one at once.

The option that says where runs are kept; all commands about runs have it.

Errors as JSON, for programs that asked for it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Annotated, Any, Self

import typer

from elastune.errors import ElastuneError, ExecutionError, InfeasibleError, JobError

if TYPE_CHECKING:
    from rich.console import RenderableType


_GOODBYE_S = 2.0


class OutputQueue:
    """A text file to write to: a thread brings what is written to the stream, as fast as that takes it.

    Somebody may have pressed Ctrl-S, or an ssh client may sleep; then a write to the stream blocks for ever.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._texts: deque[str] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._broken = False
        self._thread: threading.Thread | None = None

    @property
    def is_behind(self) -> bool:
        """What was written before has not arrived: a picture more would only wait."""
        return bool(self._texts) or self._busy

    def write(self, text: str) -> int:
        if text and not self._broken:
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._bring, name="terminal", daemon=True)
                    self._thread.start()
                self._texts.append(text)
                self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """Happens by itself."""

    def settle(self, patience_s: float = _GOODBYE_S) -> None:
        """Wait until all has arrived, but not for a stream that takes nothing."""
        until = time.monotonic() + patience_s
        with self._changed:
            while self.is_behind and not self._broken and (left_s := until - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _bring(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._texts)
                text = "".join(self._texts)
                self._texts.clear()
                self._busy = True
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):  # the terminal or the pipe is gone
                self._broken = True
                self._texts.clear()

    def __getattr__(self, name: str) -> Any:
        """Whether it is a terminal, its encoding and its number are the stream's."""
        return getattr(self._stream, name)


_LEAST_WIDTH = 80
# One character for one, so that columns stay where they are.
_PLAIN = str.maketrans("▁▂▃▄▅▆▇█▒▓▞·…±–×µ", "_.-=+*%#:%/.~~-xu")


def show(renderable: RenderableType) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    # A narrower terminal wraps lines, it does not cut numbers.
    console.width = max(console.width, _LEAST_WIDTH)
    with console.capture() as capture:
        console.print(renderable, crop=False)
    sys.stdout.write(legible(capture.get(), sys.stdout.encoding))


def legible(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has."""
    name = encoding or "utf-8"
    try:
        text.encode(name)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(name, "backslashreplace").decode(name)
    return text


# As shells have it: 128 and the number of the signal.
INTERRUPTED = 128 + signal.SIGINT


class Stopping:
    """`check` is called at safe points, and raises KeyboardInterrupt if somebody asked. Before the first one
    there is nothing to lose, and Ctrl-C does what it always does."""

    def __init__(self) -> None:
        self._asked = False
        self._under_way = False
        self._before: object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if callable(self._before) or isinstance(self._before, int):
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        self._under_way = True
        if self._asked:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked or not self._under_way:
            raise KeyboardInterrupt
        self._asked = True


# Spelled out so that `--help` need not load the API; a test holds it to the real one.
DEFAULT_FOLDER = Path("elastune-runs")

RunsFolder = Annotated[
    Path, typer.Option("--runs-folder", envvar="ELASTUNE_RUNS", help="The folder of runs.")
]


@contextlib.contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """Print an error as data and end with its exit code; without `wanted` it goes on its way."""
    try:
        yield
    except ElastuneError as error:
        if not wanted:
            raise
        typer.echo(json.dumps(_error_data(error), indent=2))
        raise typer.Exit(error.exit_code) from None


def _error_data(error: ElastuneError) -> dict[str, object]:
    from elastune.planning.infeasible import NoPlanError  # noqa: PLC0415

    if not isinstance(error, NoPlanError):
        return {"error": _kind(error), "message": str(error)}
    diagnosis = error.diagnosis
    return {
        "error": "infeasible",
        "message": str(error),
        "binding": diagnosis.binding.value,
        "deadline_seconds": diagnosis.limits.deadline_s,
        "budget": diagnosis.limits.budget_usd,
        "confidence": diagnosis.limits.confidence,
        "fastest": None if diagnosis.fastest is None else asdict(diagnosis.fastest),
        "cheapest": None if diagnosis.cheapest is None else asdict(diagnosis.cheapest),
        "would_fit": [
            {
                key: value
                for key, value in (
                    ("deadline_seconds", remedy.deadline_s),
                    ("budget", remedy.budget_usd),
                    ("max_nodes", remedy.max_nodes),
                )
                if value is not None
            }
            for remedy in diagnosis.remedies
        ],
    }


def _kind(error: ElastuneError) -> str:
    match error:
        case JobError():
            return "job"
        case ExecutionError():
            return "execution"
        case InfeasibleError():
            return "infeasible"
        case _:
            return "internal"
