"""The schedule of a policy that works in rounds, shown to people and programs before the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elastune.core.policy import ScheduledStage
from elastune.core.terms import RunTerms
from elastune.policies.costs import RoundCost, RoundCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutline:
    """`gangs` counts the trials by their slots."""

    track: int
    number: int
    seconds: float
    gangs: Mapping[int, int]
    nodes: int
    usd: float

    @property
    def trials(self) -> int:
        return sum(self.gangs.values())

    @property
    def slots(self) -> int:
        return sum(slots * count for slots, count in self.gangs.items())

    def scheduled(self, name: str, begin_s: float, begin_usd: float) -> ScheduledStage:
        return ScheduledStage(
            name=name,
            trials=self.trials,
            iterations=None,
            goal=None,
            nodes=self.nodes,
            begin_s=begin_s,
            seconds=self.seconds,
            boot_s=0.0,
            begin_usd=begin_usd,
            usd=self.usd,
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "track": self.track,
            "round": self.number,
            "seconds": self.seconds,
            "trials": self.trials,
            "slots": self.slots,
            "slots_per_trial": {str(slots): count for slots, count in self.gangs.items()},
            "nodes": self.nodes,
            "cost": self.usd,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketOutline:
    slots_per_trial: int
    trials: int
    budget_usd: float
    slot_seconds: float

    def to_dict(self) -> dict[str, object]:
        return {
            "slots_per_trial": self.slots_per_trial,
            "trials": self.trials,
            "budget": self.budget_usd,
            "slot_minutes": self.slot_seconds / 60.0,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """`seconds` and `usd` include boots and the last save."""

    seconds: float
    usd: float
    rounds: tuple[RoundOutline, ...]
    brackets: tuple[BracketOutline, ...] = ()
    extra_trials: int = 0
    spends_leftover: bool = False
    has_useless_gangs: bool = False  # some slots make their trial no faster, by the profile
    is_hasty: bool = False  # the first round is shorter than an iteration on the fewest slots
    first_round_s: float | None = None  # of training, without start-up
    draws: int = 1  # how often new trials are drawn

    @property
    def around_s(self) -> float:
        """Before the first round and after the last."""
        tracks = {each.track for each in self.rounds}
        sums = (sum(each.seconds for each in self.rounds if each.track == track) for track in tracks)
        return self.seconds - max(sums, default=0.0)

    @property
    def around_usd(self) -> float:
        """What is paid beside the rounds: boots, the last save, unused slots of whole nodes."""
        return self.usd - sum(each.usd for each in self.rounds)

    def scheduled(self, begin_s: float | None = None) -> list[tuple[ScheduledStage, ...]]:
        """The rounds of each track in sequence, from `begin_s` or from when nodes are up."""
        # What is paid beside the rounds counts before the first one: most of it is for boots.
        numbers = sorted({each.track for each in self.rounds})
        tracks = []
        for number in numbers:
            at_s = self.around_s if begin_s is None else begin_s
            usd = self.around_usd / len(numbers)
            stages = []
            for each in (each for each in self.rounds if each.track == number):
                name = f"{number + 1}.{each.number}" if len(numbers) > 1 else f"{each.number}"
                stages.append(each.scheduled(name, at_s, usd))
                at_s, usd = at_s + each.seconds, usd + each.usd
            tracks.append(tuple(stages))
        return tracks

    def to_dict(self) -> dict[str, object]:
        return {
            "rounds": max((each.number for each in self.rounds), default=0),
            "first_round_seconds": self.first_round_s,
            "brackets": [bracket.to_dict() for bracket in self.brackets],
            "extra_trials": self.extra_trials,
            "tracks": len({each.track for each in self.rounds}),
            "stages": [each.to_dict() for each in self.rounds],
        }


def outline_of(terms: RunTerms, tracks: Sequence[Sequence[RoundCost]]) -> Outline:
    tariff, speedup, least = RoundCosts.of(terms), terms.profile.speedup, terms.gangs.min_slots
    rounds = tuple(
        RoundOutline(
            track=track,
            number=number + 1,
            seconds=leg.seconds,
            gangs=dict(sorted(Counter(leg.gangs).items())),
            nodes=tariff.nodes_for(leg.gangs),
            usd=tariff.leg_usd(leg, shared=len(tracks) > 1),
        )
        for track, legs in enumerate(tracks)
        for number, leg in enumerate(legs)
    )
    first_s = max(0.0, min(track[0].seconds for track in tracks) - tariff.start_s)
    return Outline(
        seconds=tariff.boot_s + tariff.seconds(tracks) + tariff.save_s,
        usd=tariff.price_usd(tracks),
        rounds=rounds,
        has_useless_gangs=any(
            speedup.at(size) <= speedup.at(least) for leg in tracks[0] for size in leg.gangs if size > least
        ),
        is_hasty=first_s < terms.profile.iteration.mean / speedup.at(least),
        first_round_s=first_s,
        draws=max(1, sum(leg.draws for legs in tracks for leg in legs)),
    )
