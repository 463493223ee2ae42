"""Whether the thousandth trial costs more than the first: many short trials, time per trial along the run."""

from __future__ import annotations

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.arena import OURS, Bout, hold, note

SLOTS = 8
TRIALS = 1_000
PART = 100
PENDING = (1, 8)


def run(track: Track = silently, *, peer_python: str | None = None, repeats: int = 3) -> Report:
    return Report(tables=(measure(track, peer_python=peer_python, repeats=repeats),))


def measure(
    track: Track = silently,
    *,
    peer_python: str | None = None,
    repeats: int = 3,
    trials: int = TRIALS,
    part: int = PART,
    slots: int = SLOTS,
) -> Table:
    common = {"trials": trials, "part": part}
    bouts = [Bout(by=OURS, side="ours", task="long", options={**common, "slots": slots})]
    for pending in PENDING:
        by = f"ray tune, class, actors reused, {pending} pending"
        peer = {**common, "kind": "class", "reuse": True, "pending": pending}
        bouts.append(Bout(by=by, side="peer", task="long", options=peer))
    (outcomes,) = (hold(bouts, cpus=slots, rounds=repeats, python=peer_python) for _ in track(["evenness"]))
    ours = outcomes[0]
    rows: list[tuple[Cell, ...]] = []
    for each in outcomes:
        first, middle, last = (each.median(f"{name}_s") * 1e3 for name in ("first", "middle", "last"))
        rows.append(
            (each.bout.by, first, middle, last, last / first, each.median("last_s") / ours.median("last_s"))
        )
    return Table(
        name="evenness",
        title=f"{trials} trials that train nothing, on {slots} slots: ms per trial",
        header=("by", f"first {part}", f"middle {part}", f"last {part}", "last/first", "ours faster, last"),
        rows=tuple(rows),
        note=f"{note(repeats, peer_python)} Between the ends of trials, so without the start of workers.",
    )
