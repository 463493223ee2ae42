"""Many nodes of one slot and thousands of short trials that sleep; amid the run half of the nodes die."""

from __future__ import annotations

import os
import resource
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reporting import Report, Table, Track, silently
from benchmarks.runtime.journals import Timeline
from elastune.api.running import carry_out_run
from elastune.api.tuning import prepare_to_run
from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.state import State
from elastune.model.ids import NodeId, Slot
from elastune.providers.local.processes import fleets, kill, run_of

NODES = 64
TRIALS = 5_000
SLEEP_S = 2.0
_HERE = Path(__file__).parent


def run(track: Track = silently) -> Report:
    return Report(tables=tuple(measure() for _ in track(["many-nodes"])))


def measure(*, nodes: int = NODES, trials: int = TRIALS, sleep_s: float = SLEEP_S) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        loss = _KillHalf(trials)
        prepared = prepare_to_run(_job(nodes, trials, sleep_s))
        finished = carry_out_run(prepared, folder=folder, watch=loss)
        seen = _Seen(Timeline.read(Path(folder)))
    phases = finished.result.phases
    gaps = seen.gaps_s(before_s=loss.at_s)
    rows = (
        ("ended", str(finished.result.ending)),
        ("trials finished, failed", f"{phases.get('finished', 0)}, {phases.get('failed', 0)}"),
        ("all nodes up after, s", seen.all_up_s(nodes)),
        ("processor share of the driver while all train", loss.share),
        ("driver's memory at the most, MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        ("between two trials of a slot, median, ms", statistics.median(gaps) * 1e3),
        ("between two trials of a slot, 99 of 100, ms", statistics.quantiles(gaps, n=100)[98] * 1e3),
        ("nodes killed at once", loss.killed),
        ("the last of them is known to be lost after, s", seen.lost_after_s(loss.at_s)),
        ("their trials train again after, s", seen.trained_after_s(loss.at_s)),
        ("trials per second before the loss", seen.ended_between(loss.from_s, loss.at_s)),
    )
    return Table(
        name="many-nodes",
        title=f"{trials} trials of {sleep_s:g} s on {nodes} nodes of one slot",
        header=("what", "value"),
        rows=rows,
        note=f"One run; load of the machine at its end {os.getloadavg()[0]:.1f}.",
    )


def _job(nodes: int, trials: int, sleep_s: float) -> dict[str, object]:
    return {
        "trainable": f"{_HERE / 'trainables.py'}:tick",
        "space": {"x": {"float": [0.0, 1.0]}, "sleep": sleep_s},
        "metric": "score",
        "search": {
            "algorithm": "random",
            "trials": trials,
            "max_iterations": 1,
            "max_slots_per_trial": 1,
        },
        "profile": {"iteration": sleep_s},
        "cluster": {"slots_per_node": 1, "nodes": nodes, "price_per_hour": 1.0, "init": "5m"},
    }


class _KillHalf:
    """Watches the run; when half of the trials are done, kills half of its nodes."""

    def __init__(self, trials: int) -> None:
        self._trials = trials
        self._cpu_s = 0.0
        self._wall_s = 0.0
        self.from_s = 0.0
        """When the first fifth of the trials was done."""
        self.at_s = 0.0
        self.share = 0.0
        self.killed = 0

    def __call__(self, state: State) -> None:
        done = sum(trial.phase.is_over for trial in state.trials.values())
        if not self._wall_s and done >= self._trials // 5:
            self._cpu_s, self._wall_s, self.from_s = time.process_time(), time.monotonic(), state.now_s
        if not self.killed and done >= self._trials // 2:
            self.share = (time.process_time() - self._cpu_s) / (time.monotonic() - self._wall_s)
            up = [str(node) for node in state.where]
            raylets = tuple(_raylets(up[: len(up) // 2]))
            for pid in raylets:
                kill(pid, signal.SIGKILL)
            self.killed = len(raylets)
            self.at_s = state.now_s


def _raylets(nodes: Sequence[str]) -> Iterator[int]:
    """Of these nodes of our own run."""
    for processes in (found for folder, found in fleets().items() if run_of(Path(folder)) is not None):
        for pid, node in processes.items():
            if node in nodes and _is_raylet(pid):
                yield pid


def _is_raylet(pid: int) -> bool:
    try:
        return b"raylet/raylet" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the journal says of it."""

    timeline: Timeline

    def all_up_s(self, nodes: int) -> float:
        up = 0
        for event, _ in self.timeline.steps:
            up += len(event.nodes) if isinstance(event, ev.NodesReady) else 0
            if up >= nodes:
                return event.at_s
        return float("nan")

    def gaps_s(self, before_s: float) -> list[float]:
        """From the last row of a trial to the start of the next one on the same slot."""
        ended: dict[Slot, float] = {}
        slots: dict[int, Slot] = {}
        gaps: list[float] = []
        for event, commands in self.timeline.steps:
            if event.at_s > before_s:
                break
            if isinstance(event, ev.GangStarted) and (slot := slots[event.trial]) in ended:
                gaps.append(event.at_s - ended.pop(slot))
            if isinstance(event, ev.Progressed) and event.rows:
                ended[slots[event.trial]] = event.rows[-1].at_s
            slots |= {each.trial: each.gang[0] for each in commands if isinstance(each, do.Train)}
        return gaps

    def lost_after_s(self, since_s: float) -> float:
        lost = [event.at_s for event, _ in self.timeline.steps if isinstance(event, ev.NodeLost)]
        return max(lost) - since_s

    def trained_after_s(self, since_s: float) -> float:
        """The longest time until a trial that trained on a lost node has started elsewhere."""
        slots: dict[int, NodeId] = {}
        waiting: dict[int, None] = {}
        last_s = since_s
        for event, commands in self.timeline.steps:
            if isinstance(event, ev.NodeLost):
                waiting |= dict.fromkeys(trial for trial, node in slots.items() if node == event.node)
            if isinstance(event, ev.GangStarted) and event.trial in waiting:
                del waiting[event.trial]
                last_s = max(last_s, event.at_s)
            if isinstance(event, ev.LeaseEnded):
                slots.pop(event.trial, None)
            slots |= {each.trial: each.gang[0].node for each in commands if isinstance(each, do.Train)}
        return last_s - since_s

    def ended_between(self, from_s: float, to_s: float) -> float:
        ends = [event.at_s for event, _ in self.timeline.steps if isinstance(event, ev.LeaseEnded)]
        return sum(from_s < end <= to_s for end in ends) / (to_s - from_s)
