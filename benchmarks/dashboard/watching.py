"""What watching costs a run: processor time of its driver per report, alone and with streams of browsers.

The driver is a simulated run that commits its journal as a real one does: as fast as it can, and with as many
reports per second as a large real run has. Alone and watched take turns, in another order each time, so that
other work on the machine is in all of them.
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
from dataclasses import dataclass
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

BROWSERS = (0, 1, 10)
TURNS = 5
_RUN = RunId("0b0001")
_DAY = datetime(2026, 11, 16, tzinfo=UTC)
_COMMITS_PER_S = 4
_DRIVER = "from benchmarks.dashboard.watching import drive; import sys; drive(*sys.argv[1:])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """`events_per_s` of None: as fast as it can."""

    name: str
    trials: int
    events_per_s: float | None


SPEEDS = (
    Speed(name="at full speed", trials=2_000, events_per_s=None),
    Speed(name="500 reports per second", trials=400, events_per_s=500.0),
)


def drive(root: str, trials: str, events_per_s: str) -> None:
    """In a process of its own: prints reports, processor seconds and seconds."""
    job = job_with(int(trials), 100)
    folder = RunFolder.create(Path(root), name=job.name, now_utc=_DAY, run=_RUN)
    record = RunRecord(
        run=_RUN, name=job.name, created_utc=_DAY, body=RuntimeKind.SIMULATED, policy="random", seed=0
    )
    simulation = Simulation(
        prepare(job), seed=0, journal=Journal.open(folder.journal, durable=True), record=record
    )
    simulation.start()
    simulation.writer.commit()
    sys.stdin.readline()
    began, processor, state = time.perf_counter(), time.process_time(), simulation.core.state
    committed_s, pace_s = 0.0, 1.0 / float(events_per_s) if events_per_s else 0.0
    while simulation.step():
        now_s = time.perf_counter() - began
        if now_s - committed_s > 1.0 / _COMMITS_PER_S:
            simulation.writer.commit()
            committed_s = now_s
        if (ahead_s := state.events * pace_s - now_s) > 0.0:
            time.sleep(ahead_s)
    simulation.writer.commit()
    used_s, took_s = time.process_time() - processor, time.perf_counter() - began
    simulation.writer.close()
    print(state.events, used_s, took_s)


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


def turn(speed: Speed, watchers: int) -> tuple[float, float, int]:
    """Processor time per report in microseconds, reports per second, and the fewest moments a browser got."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root = Path(folder) / "runs"
        driver = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _DRIVER, str(root), str(speed.trials), str(speed.events_per_s or "")],
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
            while not min(got):  # all have opened the run before it goes on
                time.sleep(0.05)
        out, _ = driver.communicate("go\n")
        events, processor_s, seconds = map(float, out.split())
        return 1e6 * processor_s / events, events / seconds, min(got)


def run(track: Track = silently, *, speeds: tuple[Speed, ...] = SPEEDS, turns: int = TURNS) -> Report:
    found: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for number in track(range(turns)):
        for speed in speeds:
            for at in range(len(BROWSERS)):
                watchers = BROWSERS[(at + number) % len(BROWSERS)]
                found.setdefault((speed.name, watchers), []).append(turn(speed, watchers))
    rows: list[tuple[Cell, ...]] = []
    for (name, watchers), measured in sorted(found.items()):
        middle = [statistics.median(each[part] for each in measured) for part in range(3)]
        alone = found[name, 0]
        ratio = statistics.median(b[0] / a[0] for a, b in zip(alone, measured, strict=True))
        rows.append((name, watchers, *middle, ratio))
    table = Table(
        name="watching",
        title="Processor time of the driver, watched and alone",
        header=("driver", "browsers", "µs per report", "reports per second", "moments per browser", "ratio"),
        rows=tuple(rows),
        note=f"Medians of {turns} turns. Ratio: processor time per report to that of the same turn alone.",
    )
    return Report(tables=(table,))
