"""What it takes to give a trial more or fewer slots.

Both sides train the same sleeping iterations and tell when each ended: a resize is the time from the end of
the last iteration on the old slots to that of the first one on the new. Elastune's gang has a process per
slot, which have to meet; Tune's trial stays one actor, for which more is reserved.
"""

from __future__ import annotations

from benchmarks.reporting import Cell, Report, Table, Track, silently
from benchmarks.runtime.arena import OURS, Bout, Outcome, hold, note

SLOTS = 8
GANGS = 11
MEGABYTES = 5


def run(track: Track = silently, *, peer_python: str | None = None, repeats: int = 3) -> Report:
    return Report(tables=(measure(track, peer_python=peer_python, repeats=repeats),))


def measure(
    track: Track = silently,
    *,
    peer_python: str | None = None,
    repeats: int = 3,
    slots: int = SLOTS,
    gangs: int = GANGS,
    with_torch: bool = True,
) -> Table:
    small = {"sizes": [1, 2], "gangs": gangs}
    bouts = [
        Bout(by=f"{OURS}, 1 and 2 slots", side="ours", task="resizes", options={**small, "slots": slots}),
        Bout(by="ray tune, 1 and 2 CPUs", side="peer", task="resizes", options=small),
    ]
    # In processes of their own: a driver that has imported torch has its workers import it beforehand.
    duels = [bouts]
    if with_torch:
        large = {"sizes": [2, 4], "gangs": gangs, "slots": slots, "megabytes": MEGABYTES}
        by = f"{OURS}, torch on 2 and 4 slots, {MEGABYTES} MB"
        duels.append([Bout(by=by, side="ours", task="resizes_with_weights", options=large)])
    outcomes = [
        outcome
        for duel in track(duels)
        for outcome in hold(duel, cpus=slots, rounds=repeats, python=peer_python)
    ]
    rows = tuple(_row(each, outcomes[0]) for each in outcomes)
    return Table(
        name="resizing",
        title=f"Seconds per resize of one trial, {gangs - 1} in a row",
        header=(
            "by",
            "row to row, s",
            "from to",
            "the first, s",
            "worst of the rest, s",
            "last row to start, s",
            "order to start, s",
            "ours faster",
        ),
        rows=rows,
        note=f"{note(repeats, peer_python)} Row to row: with one iteration of 10 ms. Start: the new gang has "
        "met and loaded the state. Order: the command to stop the old one.",
    )


def _row(each: Outcome, ours: Outcome) -> tuple[Cell, ...]:
    compared = each.bout.task == "resizes"
    return (
        each.bout.by,
        each.median("gap_s"),
        each.spread("gap_s"),
        each.median("first_gap_s"),
        each.median("worst_gap_s"),
        each.median("still_s") if each.has("still_s") else None,
        each.median("order_s") if each.has("order_s") else None,
        each.median("gap_s") / ours.median("gap_s") if compared else None,
    )
