"""Trials that train nothing: what a system adds to each, and what it takes to begin.

Cold is the whole call from a Ray that has been started. Elastune's warm time begins when its slots are
ready; Tune starts its actors trial by trial, so it has no such moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.arena import OURS, Bout, Outcome, best_of, hold, note

SLOTS = 8
TRIALS = (8, 100)
Variant = tuple[str, bool, int]
# Kind of trainable, whether actors are used again, how many trials wait for an actor at a time. Without
# reuse both kinds took longer in a screening, and so did 16 waiting.
VARIANTS: tuple[Variant, ...] = (
    ("class", True, 1),
    ("class", True, 8),
    ("function", True, 1),
    ("function", True, 8),
)


def run(track: Track = silently, *, peer_python: str | None = None, repeats: int = 3) -> Report:
    return Report(tables=(measure(track, peer_python=peer_python, repeats=repeats),))


def measure(
    track: Track = silently,
    *,
    peer_python: str | None = None,
    repeats: int = 3,
    trials: Sequence[int] = TRIALS,
    slots: int = SLOTS,
    variants: Sequence[Variant] = VARIANTS,
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for count in track(list(trials)):
        outcomes = hold(_bouts(count, slots, variants), cpus=slots, rounds=repeats, python=peer_python)
        rows += _rows(count, outcomes)
    return Table(
        name="trials",
        title=f"Trials that train nothing, on {slots} slots, from a started Ray",
        header=("trials", "by", "cold, s", "from to", "warm, s", "ours faster cold", "ours faster warm"),
        rows=tuple(rows),
        note=f"{note(repeats, peer_python)} Cold: the whole call, workers are started in it. Warm: from all "
        "slots ready to the end, of Elastune alone; its ratio is to Tune's whole call.",
    )


def _bouts(trials: int, slots: int, variants: Sequence[Variant]) -> list[Bout]:
    ours = Bout(by=OURS, side="ours", task="trials", options={"trials": trials, "slots": slots})
    return [ours, *(_peer(trials, *variant) for variant in variants)]


def _peer(trials: int, kind: str, reuse: bool, pending: int) -> Bout:
    name = f"ray tune, {kind}{', actors reused' if reuse else ''}, {pending} pending"
    options = {"trials": trials, "kind": kind, "reuse": reuse, "pending": pending}
    return Bout(by=name, side="peer", task="trials", options=options)


def _rows(trials: int, outcomes: Sequence[Outcome]) -> list[tuple[Cell, ...]]:
    ours = outcomes[0]
    best = best_of(outcomes, "wall_s")
    rows: list[tuple[Cell, ...]] = []
    for each in outcomes:
        wall = each.median("wall_s")
        warm = each.median("warm_s") if each is ours else None
        rows.append(
            (
                trials,
                each.bout.by + (" (its best)" if each is best else ""),
                wall,
                each.spread("wall_s"),
                warm,
                wall / ours.median("wall_s"),
                wall / ours.median("warm_s"),
            )
        )
    return rows
