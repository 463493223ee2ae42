"""What was planned, as a course through time: which stage when, on how many nodes, and what has been paid.

A plan has a track per bracket, with stages that end at barriers; a policy in rounds has tracks of rounds that
end by the clock. A policy that decides while it runs has no tracks, only a time and a price in the end.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from elastune.planning import Quote
from elastune.policies import Outline
from elastune.runs.result import Estimate
from elastune.runs.setup import RunSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One stage or round. `boot_s`: its first seconds, in which nodes come up and nothing trains."""

    name: str
    trials: int
    iterations: int | None
    goal: int | None
    """Iterations that a trial has behind it at the end; None: a round ends by the clock."""
    nodes: int
    begin_s: float
    seconds: float
    boot_s: float
    begin_usd: float
    usd: float
    done: float = 0.0
    """Of the work of the stage, what was done before: the leg is the rest of it, planned again."""

    @property
    def end_s(self) -> float:
        return self.begin_s + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    legs: tuple[Leg, ...]

    @property
    def seconds(self) -> float:
        return self.legs[-1].end_s

    def usd_at(self, at_s: float) -> float:
        """Paid by then; within a stage by the second."""
        usd = 0.0
        for leg in self.legs:
            if at_s < leg.end_s:
                share = max(0.0, at_s - leg.begin_s) / leg.seconds if leg.seconds else 1.0
                return max(usd, leg.begin_usd + share * leg.usd)
            usd = leg.begin_usd + leg.usd
        return usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """`word` is what a leg is called."""

    predicted: Estimate | None
    tracks: tuple[Track, ...] = ()
    word: str = "stage"

    @property
    def is_by_clock(self) -> bool:
        return self.word == "round"

    def usd_at(self, at_s: float) -> float | None:
        """None: nothing was predicted. Without tracks, money goes evenly."""
        if self.tracks:
            return sum(track.usd_at(at_s) for track in self.tracks)
        if self.predicted is None:
            return None
        jct_s = self.predicted.jct_seconds
        return self.predicted.cost * (min(1.0, at_s / jct_s) if jct_s else 1.0)


def course_of(setup: RunSetup, predicted: Estimate | None) -> Course:
    if setup.quote is not None:
        return _by_plan(setup.quote, predicted)
    outline = setup.outline()
    return Course(predicted=predicted) if outline is None else _by_clock(outline, predicted)


def _by_plan(quote: Quote, predicted: Estimate | None) -> Course:
    cluster = quote.problem.cluster
    boot_s = cluster.queue.mean + cluster.init.mean
    tracks: list[Track] = []
    for bracket in quote.brackets:
        legs: list[Leg] = []
        at_s, usd, held, goal = 0.0, 0.0, 0, 0
        prefix = f"{bracket.name.removeprefix('bracket ')}." if len(quote.brackets) > 1 else ""
        for number, stage in enumerate(bracket.stages, 1):
            goal += stage.iterations
            legs.append(
                Leg(
                    name=f"{prefix}{number}",
                    trials=stage.trials,
                    iterations=stage.iterations,
                    goal=goal,
                    nodes=stage.nodes_held,
                    begin_s=at_s,
                    seconds=stage.seconds,
                    boot_s=min(boot_s, stage.seconds) if stage.nodes_held > held else 0.0,
                    begin_usd=usd,
                    usd=stage.cost,
                )
            )
            at_s, usd, held = at_s + stage.seconds, usd + stage.cost, stage.nodes_held
        tracks.append(Track(legs=tuple(legs)))
    return Course(predicted=predicted, tracks=tuple(tracks))


def _by_clock(outline: Outline, predicted: Estimate | None) -> Course:
    """What is paid beside the rounds is mostly paid for boots, before the first one."""
    by_track = itertools.groupby(sorted(outline.rounds, key=lambda r: (r.track, r.number)), lambda r: r.track)
    grouped = [list(rounds) for _, rounds in by_track]
    around_usd = outline.around_usd / max(1, len(grouped))
    tracks: list[Track] = []
    for position, rounds in enumerate(grouped):
        prefix = f"{position + 1}." if len(grouped) > 1 else ""
        at_s, usd = outline.around_s, around_usd
        legs: list[Leg] = []
        for each in rounds:
            legs.append(
                Leg(
                    name=f"{prefix}{each.number}",
                    trials=each.trials,
                    iterations=None,
                    goal=None,
                    nodes=each.nodes,
                    begin_s=at_s,
                    seconds=each.seconds,
                    boot_s=0.0,
                    begin_usd=usd,
                    usd=each.usd,
                )
            )
            at_s, usd = at_s + each.seconds, usd + each.usd
        tracks.append(Track(legs=tuple(legs)))
    return Course(predicted=predicted, tracks=tuple(tracks), word="round")
