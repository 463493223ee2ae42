"""ASHA on the same table by our simulator and by Syne Tune's, in turns, as ratios of processor time.

Syne Tune polls its simulated trials: every 5 virtual seconds by default. Once per epoch is the fastest that
leaves the simulated time about as it is (300 trials polled every 120 s take a fifth longer). It promotes r/r'
of the trials of a rung r to the next one r', ours 1/eta: the same up to 27 epochs, but 53 % instead of 33 %
from 27 to 51. So up to 51 the ratio per epoch is the fair one.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.simulation import ours
from benchmarks.simulation.curves import METRIC, write_table
from benchmarks.simulation.measurement import EPOCH_S, ETA, NODES, SLOTS_PER_NODE, Measurement, Search

SEARCHES = (
    Search(trials=300, max_epochs=51),
    Search(trials=1000, max_epochs=51),
    Search(trials=3000, max_epochs=51, replace=True),
    Search(trials=1000, max_epochs=27),
)
OURS = "elastune"
PEERS = {"syne-tune, polls per epoch": EPOCH_S, "syne-tune, polls every 5 s": 5.0}
REPEATS = 5
INSTALL = "Without Syne Tune: how to install it is said in benchmarks/simulation/__init__.py (--peer-python)."
Round = dict[str, Measurement]


def run(track: Track = silently, *, peer_python: str | None = None) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder))
        return Report(tables=(measure(table, track, peer_python=peer_python),))


def measure(
    table: Path,
    track: Track = silently,
    *,
    peer_python: str | None = None,
    searches: Sequence[Search] = SEARCHES,
    repeats: int = REPEATS,
) -> Table:
    """Every search by every simulator; each repeat has another seed."""
    ours.measure(ours.asha_job(table, searches[0]), seed=0)
    rounds: dict[Search, list[Round]] = {search: [] for search in searches}
    for seed, search in track([(seed, search) for seed in range(repeats) for search in searches]):
        measured = {OURS: ours.measure(ours.asha_job(table, search), seed)[0]}
        if peer_python:
            measured |= _by_peer(peer_python, table, search, seed)
        rounds[search].append(measured)
    return Table(
        name="syne-tune",
        title=f"ASHA (eta {ETA}) on {NODES * SLOTS_PER_NODE} workers, simulated: {OURS} with its journal on",
        header=(
            "epochs up to",
            "trials",
            "by",
            "epochs",
            "best",
            "prepare, s",
            "wall, s",
            "processor, s",
            "trials/s",
            "µs/epoch",
            "ours faster per trial",
            "per epoch",
        ),
        rows=tuple(row for search in searches for row in _rows(search, rounds[search])),
        note=f"Medians of {repeats} seeds in turns; all but wall in processor time. Syne Tune runs in a "
        "process of its own; imports and prepare (opening the table, too) are not part of the rest."
        if peer_python
        else INSTALL,
    )


def _rows(search: Search, rounds: Sequence[Round]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for name in rounds[0]:
        all_of = [each[name] for each in rounds]
        cells = [
            statistics.median(values)
            for values in (
                [float(each.epochs) for each in all_of],
                [each.best for each in all_of],
                [each.prepare_s for each in all_of],
                [each.wall_s for each in all_of],
                [each.processor_s for each in all_of],
                [1.0 / each.s_per_trial for each in all_of],
                [each.s_per_epoch * 1e6 for each in all_of],
                [each[name].s_per_trial / each[OURS].s_per_trial for each in rounds],
                [each[name].s_per_epoch / each[OURS].s_per_epoch for each in rounds],
            )
        ]
        rows.append((search.max_epochs, search.trials, name, round(cells[0]), *cells[1:]))
    return rows


def _by_peer(python: str, table: Path, search: Search, seed: int) -> Round:
    asked = [
        dataclasses.asdict(search)
        | {"metric": METRIC, "epoch_s": EPOCH_S, "eta": ETA, "workers": NODES * SLOTS_PER_NODE}
        | {"poll_s": poll_s, "seed": seed}
        for poll_s in PEERS.values()
    ]
    script = Path(__file__).with_name("peer.py")
    done = subprocess.run(
        [python, str(script), str(table), json.dumps(asked)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"Syne Tune under {python} failed:\n{done.stderr[-2000:]}\n{INSTALL}")
    answers = json.loads(done.stdout.splitlines()[-1])
    return {name: Measurement(**answer) for name, answer in zip(PEERS, answers, strict=True)}
