"""Reports per second: trials that do nothing but report, as fast as the driver takes it in."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.arena import OURS, Bout, best_of, hold, note

SLOTS = 8
ITERATIONS = 20_000
# Kind of trainable, rows in a buffer, seconds after which a buffer is sent anyway, iterations of each trial
# (for some seconds). One row: no buffer.
VARIANTS = (
    ("class", 1, 1, 1_000),
    ("class", 100, 2, 10_000),
    ("class", 1_000, 5, 10_000),
    ("function", 1, 1, 1_000),
    ("function", 100, 2, 10_000),
    ("function", 1_000, 5, 10_000),
)
Variant = tuple[str, int, int, int]


def run(track: Track = silently, *, peer_python: str | None = None, repeats: int = 3) -> Report:
    return Report(tables=(measure(track, peer_python=peer_python, repeats=repeats),))


def measure(
    track: Track = silently,
    *,
    peer_python: str | None = None,
    repeats: int = 3,
    slots: int = SLOTS,
    iterations: int = ITERATIONS,
    variants: Sequence[Variant] = VARIANTS,
) -> Table:
    """`iterations` of each of our trials; the peer's are in its variants."""
    options = {"trials": slots, "slots": slots, "iterations": iterations}
    bouts = [Bout(by=OURS, side="ours", task="reports", options=options)]
    bouts += [_peer(slots, *variant) for variant in variants]
    (outcomes,) = (hold(bouts, cpus=slots, rounds=repeats, python=peer_python) for _ in track(["reports"]))
    ours, best = outcomes[0], best_of(outcomes, "per_s", most=True)
    rows: list[tuple[Cell, ...]] = [
        (
            each.bout.by + (" (its best)" if each is best else ""),
            each.median("per_s"),
            each.spread("per_s"),
            each.median("seconds"),
            ours.median("per_s") / each.median("per_s"),
        )
        for each in outcomes
    ]
    return Table(
        name="reports",
        title=f"Reports per second of {slots} trials at once that do nothing else",
        header=("by", "reports/s", "from to", "seconds", "ours faster"),
        rows=tuple(rows),
        note=f"{note(repeats, peer_python)} As the driver takes them in, from the first to the last. "
        "Elastune journals every row on disk; Tune writes none.",
    )


def _peer(trials: int, kind: str, length: int, seconds: int, iterations: int) -> Bout:
    buffered = f", {length} rows buffered" if length > 1 else ""
    options = {
        "trials": trials,
        "iterations": iterations,
        "kind": kind,
        "length": length,
        "seconds": seconds,
    }
    return Bout(by=f"ray tune, {kind}{buffered}", side="peer", task="reports", options=options)
