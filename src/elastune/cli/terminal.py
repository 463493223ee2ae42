"""What all commands share: their common options, printing, Ctrl-C, and JSON output.

Nothing that a run or a user wrote is interpreted as markup, and characters that the terminal's encoding lacks
are replaced. A blocked terminal or pipe must not block the run that is shown there (`OutputQueue`).
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Annotated, Any, Self

import typer

from elastune.errors import ElastuneError, ExecutionError, InfeasibleError, JobError
from elastune.model.quantities import PlannerName

if TYPE_CHECKING:
    from rich.console import RenderableType

    from elastune.planning.infeasible import Remedy


# Spelled out so that `--help` need not load the API; a test compares them.
DEFAULT_FOLDER = Path("elastune-runs")
RunsFolder = Annotated[
    Path, typer.Option("--runs-folder", envvar="ELASTUNE_RUNS", help="The folder of runs.")
]
JobFile = Annotated[Path, typer.Argument(help="The job file (YAML).", show_default=False)]
AnyRun = Annotated[
    str,
    typer.Argument(
        help="A run: its folder or journal, the start of its id, its name, or last.", show_default=False
    ),
]
RunToChange = Annotated[
    str, typer.Argument(help="A run: its folder, the start of its id, its name, or last.", show_default=False)
]
Address = Annotated[str | None, typer.Option(help="Use the Ray cluster at this address.", show_default=False)]
Check = Annotated[
    bool, typer.Option("--check/--no-check", help="Try the trainable before the run, see `elastune check`.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending money.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show only the quote and the result.")]
Plain = Annotated[bool, typer.Option("--plain", help="Log lines instead of a live screen.")]
Planner = Annotated[
    PlannerName | None, typer.Option(help="The planner of a declared search.", show_default="the job's")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
# As shells have it: 128 plus the number of the signal.
INTERRUPTED = 128 + signal.SIGINT
_LAST_WAIT_S = 2.0


class OutputQueue:
    """A text file whose text a thread writes to the stream.

    After Ctrl-S, or while an ssh client sleeps, a write to the stream itself would block for ever.
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
        """Output is still queued; skip this redraw."""
        return bool(self._texts) or self._busy

    def write(self, text: str) -> int:
        if text and not self._broken:
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._forward, name="terminal", daemon=True)
                    self._thread.start()
                self._texts.append(text)
                self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """The thread flushes."""

    def settle(self, timeout_s: float = _LAST_WAIT_S) -> None:
        """Wait until everything is written, at most for the timeout."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while self.is_behind and not self._broken and (left_s := until - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _forward(self) -> None:
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
        """`isatty`, `encoding`, `fileno` and the like are the stream's."""
        return getattr(self._stream, name)


_LEAST_WIDTH = 80
# Character by character, so that columns stay aligned.
_PLAIN = str.maketrans("▁▂▃▄▅▆▇█▒▓▞·…±–×µ", "_.-=+*%#:%/.~~-xu")


def show(renderable: "RenderableType") -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    # A narrower terminal wraps lines, it does not cut numbers.
    console.width = max(console.width, _LEAST_WIDTH)
    with console.capture() as capture:
        console.print(renderable, crop=False)
    sys.stdout.write(legible(capture.get(), sys.stdout.encoding))


def print_json(data: object) -> None:
    typer.echo(json.dumps(data, indent=2), file=_json_stream.get())


def present(result: Any, render: "Callable[[Any], RenderableType]", *, as_json: bool) -> None:
    """Print a result as JSON or rendered."""
    if as_json:
        print_json(result.to_dict())
    else:
        show(render(result))


def legible(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has."""
    name = encoding or "utf-8"
    try:
        text.encode(name)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(name, "backslashreplace").decode(name)
    return text


class Stopping:
    """Ctrl-C in a long command: the first one takes effect at the next `check`, a second one at once.

    Before the first `check` there is nothing to lose, and Ctrl-C interrupts at once.
    """

    def __init__(self) -> None:
        self._asked = False
        self._under_way = False
        self._before: object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
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


_KINDS = {JobError: "job", ExecutionError: "execution", InfeasibleError: "infeasible"}


owns_process: ContextVar[bool] = ContextVar("owns_process", default=False)
"""Whether the process was started for this command, so that its age is that of the command."""

_json_stream: ContextVar[IO[str] | None] = ContextVar("_json_stream", default=None)
"""Standard output, while everything but JSON is diverted from it."""


@contextlib.contextmanager
def json_output(wanted: bool) -> Iterator[None]:
    """If `wanted`, nothing but `print_json` gets to standard output, and an error is printed as JSON.

    What a trainable, Ray or a library prints goes to standard error.
    """
    if not wanted:
        yield
        return
    with _everything_to_stderr() as stream:
        token = _json_stream.set(stream)
        try:
            yield
        except ElastuneError as error:
            print_json(_error_data(error))
            raise typer.Exit(error.exit_code) from None
        finally:
            _json_stream.reset(token)


@contextlib.contextmanager
def _everything_to_stderr() -> Iterator[IO[str]]:
    """Yields what was standard output. In a process of its own the file descriptor is diverted, too: child
    processes and native code write to that."""
    try:
        owned = sys.stdout.fileno() == 1 and sys.stderr.fileno() == 2
    except (AttributeError, OSError, ValueError):  # closed, or replaced by an object without a file
        owned = False
    with contextlib.ExitStack() as undo:
        stream: IO[str] = sys.stdout
        if owned:
            stream.flush()
            kept = os.dup(1)
            undo.callback(os.close, kept)
            undo.callback(os.dup2, kept, 1)
            os.dup2(2, 1)
            stream = undo.enter_context(open(kept, "w", encoding=sys.stdout.encoding, closefd=False))
        undo.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield stream


def _error_data(error: ElastuneError) -> dict[str, object]:
    from elastune.planning.infeasible import NoPlanError  # noqa: PLC0415

    if not isinstance(error, NoPlanError):
        kind = next((name for each, name in _KINDS.items() if isinstance(error, each)), "internal")
        return {"error": kind, "message": str(error)}
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
        "would_fit": [_remedy_data(remedy) for remedy in diagnosis.remedies],
    }


def _remedy_data(remedy: "Remedy") -> dict[str, object]:
    changes = {
        "planner": remedy.planner,
        "deadline_seconds": remedy.deadline_s,
        "budget": remedy.budget_usd,
        "max_nodes": remedy.max_nodes,
    }
    return {name: change for name, change in changes.items() if change is not None}


def read_config(config: str) -> dict[str, object]:
    import yaml  # noqa: PLC0415

    with contextlib.suppress(yaml.YAMLError):
        given = yaml.safe_load(config)
        if isinstance(given, dict) and given:
            return {str(name): value for name, value in given.items()}
    raise JobError(f"--config is {config!r}; expected values by name, such as '{{lr: 0.1, momentum: 0.9}}'")
