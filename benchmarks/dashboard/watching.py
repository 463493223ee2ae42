"""What watching costs a run: processor time of its driver per report, alone and with ten browsers' streams.

The driver is a simulated run that commits its journal as a real one does. Alone and watched take turns, so
that other work on the machine is in both.
"""

from __future__ import annotations

import contextlib
import http.client
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.dashboard.large_run import job_with
from benchmarks.dashboard.opening import dashboard
from benchmarks.reporting import Cell, Report, Table, Track, silently
from elastune.journal.records import RunId, RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.store import Journal
from elastune.runs.simulation import Simulation
from elastune.setup.run_setup import prepare

STREAMS = 10
TURNS = 5
_RUN = RunId("0b0001")
_DAY = datetime(2026, 11, 16, tzinfo=UTC)
_DRIVER = "from benchmarks.dashboard.watching import drive; import sys; drive(sys.argv[1], int(sys.argv[2]))"


def drive(root: str, trials: int) -> None:
    """In a process of its own: prints reports, processor seconds and seconds."""
    job = job_with(trials, 100)
    folder = RunFolder.create(Path(root), name=job.name, now_utc=_DAY, run=_RUN)
    record = RunRecord(
        run=_RUN, name=job.name, created_utc=_DAY, body=RuntimeKind.SIMULATED, policy="random", seed=0
    )
    simulation = Simulation(
        prepare(job), seed=0, journal=Journal.open(folder.journal, durable=True), record=record
    )
    sys.stdin.readline()
    began, processor = time.perf_counter(), time.process_time()
    simulation.run(clock=time.monotonic)
    print(simulation.core.state.events, time.process_time() - processor, time.perf_counter() - began)


@contextlib.contextmanager
def streams(address: str, count: int) -> Iterator[list[int]]:
    """`count` browsers on the run; the list has the events that each has got."""
    parts, got = urlsplit(address), [0] * count
    assert parts.port is not None
    connection = http.client.HTTPConnection("127.0.0.1", parts.port)
    connection.request("GET", f"/?{parts.query}")
    cookie = (connection.getresponse().getheader("set-cookie") or "").partition(";")[0]
    connection.close()

    def listen(number: int) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            own = http.client.HTTPConnection("127.0.0.1", parts.port or 0)
            own.request("GET", f"/api/runs/{_RUN}/live", headers={"cookie": cookie})
            answer = own.getresponse()
            while line := answer.readline():
                got[number] += line.startswith(b"event:")

    for number in range(count):
        threading.Thread(target=listen, args=(number,), daemon=True).start()
    yield got


def turn(trials: int, watchers: int) -> tuple[float, float, int]:
    """Processor time per report in microseconds, reports per second, and the fewest moments a browser got."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root = Path(folder) / "runs"
        driver = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _DRIVER, str(root), str(trials)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        got = [0]
        if watchers:
            while not list(root.glob("*/journal.sqlite")):
                time.sleep(0.05)
            address = stack.enter_context(dashboard(root, Path(folder) / "home"))
            got = stack.enter_context(streams(address, watchers))
        out, _ = driver.communicate("go\n")
        events, processor_s, seconds = map(float, out.split())
        return 1e6 * processor_s / events, events / seconds, min(got)


def run(track: Track = silently, *, trials: int = 400, turns: int = TURNS) -> Report:
    alone, watched = [], []
    for _ in track(range(turns)):
        alone.append(turn(trials, 0))
        watched.append(turn(trials, STREAMS))
    rows: list[tuple[Cell, ...]] = []
    for name, measured in (("alone", alone), (f"{STREAMS} browsers", watched)):
        middle = [statistics.median(each[part] for each in measured) for part in range(3)]
        rows.append((name, *middle))
    ratio = statistics.median(b[0] / a[0] for a, b in zip(alone, watched, strict=True))
    table = Table(
        name="watching",
        title="Processor time of the driver, watched and alone",
        header=("driver", "µs per event", "events per second", "moments per browser"),
        rows=tuple(rows),
        note=f"Median of {turns} turns. Watched / alone: {ratio:.3f} in processor time per event.",
    )
    return Report(tables=(table,))
