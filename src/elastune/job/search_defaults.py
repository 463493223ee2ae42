"""The options of a search that is only a name (`search: asha`), from the limits and the measured speed.

A full training must fit into the time, and all trainings together into the time of all slots, or into the
money, with a reserve for boots and for slower configurations. Without a limit or a measurement the search is
one of 27 trials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastune.model.cluster import SECONDS_PER_HOUR, ClusterTerms
from elastune.model.limits import GangLimits, Limits
from elastune.model.profile import Profile

# Of the time and the money; the rest is for boots and configurations that are slower.
_SHARE = 0.8
# Several trials of ASHA should train to the end, one after the other.
_TURNS = 3.0
_TRIALS = 30
_ETA = 3
_USUAL = 3  # 27 trials
_MOST = 9  # 19,683 trials
_PBT_TRIALS, _PBT_INTERVAL, _PBT_ITERATIONS = 8, 5, 50


@dataclass(frozen=True, slots=True)
class Work:
    """Iterations, and how often a trial starts and saves."""

    iterations: float
    stops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What fits into the limits, in seconds: of one trial, and of all slots. None: not limited, or the speed
    is not known."""

    in_turn_s: float | None = None
    together_s: float | None = None
    iteration_s: float = 0.0
    stop_s: float = 0.0
    is_limited: bool = False

    @classmethod
    def of(cls, limits: Limits, profile: Profile | None, cluster: ClusterTerms, gangs: GangLimits) -> Room:
        """`profile` None: the training has not been measured."""
        if profile is None or not limits.are_set:
            return cls(is_limited=limits.are_set)
        deadline_s, budget_usd = limits.deadline_s, limits.budget_usd
        # Without a budget, the default must not take all nodes of an elastic cluster.
        nodes = cluster.max_nodes if cluster.fixed or budget_usd is not None else 1
        slots = max(1, nodes * cluster.slots_per_node // gangs.min_slots)
        paid = [] if deadline_s is None else [deadline_s * slots]
        if budget_usd is not None and cluster.price_per_hour:
            trial_usd = cluster.price_per_hour / cluster.slots_per_node * gangs.min_slots
            paid.append(budget_usd / trial_usd * SECONDS_PER_HOUR)
        return cls(
            in_turn_s=None if deadline_s is None else _SHARE * deadline_s,
            together_s=_SHARE * min(paid) if paid else None,
            iteration_s=profile.iteration.mean / profile.speedup.at(gangs.min_slots),
            stop_s=profile.startup.mean + profile.save.mean + 2 * profile.transfer_s,
            is_limited=True,
        )

    def holds(self, in_turn: Work, together: Work) -> bool:
        fits = self.in_turn_s is None or self._seconds(in_turn) <= self.in_turn_s
        return fits and (self.together_s is None or self._seconds(together) <= self.together_s)

    def iterations_of_each(self, trials: int) -> int:
        """With which so many trials can be trained to the end."""
        most = [] if self.in_turn_s is None else [self.in_turn_s]
        most += [] if self.together_s is None else [self.together_s / trials]
        return max(1, int((min(most) - self.stop_s) / self.iteration_s))

    def _seconds(self, work: Work) -> float:
        return work.iterations * self.iteration_s + work.stops * self.stop_s

    @property
    def is_known(self) -> bool:
        return self.iteration_s > 0.0 and (self.in_turn_s is not None or self.together_s is not None)


def default_options(  # noqa: PLR0911  one case per algorithm
    algorithm: str, room: Room, grid: int | None = None
) -> dict[str, int]:
    """`grid` is the number of configurations, if they can be counted."""
    match algorithm:
        case "sha":
            exponent = _largest(room, lambda k: Work(_sum(k), k + 1), _of_rungs)
            return {"trials": _ETA**exponent, "max_iterations": _sum(exponent)}
        case "hyperband" | "bohb":
            return {"max_iterations": _ETA ** _largest(room, _full, _of_brackets)}
        case "asha":
            return {"max_iterations": _ETA ** _largest(room, _full_in_turns, _of_rungs)} | _trials(room)
        case "hypersched" | "forecast" if not room.is_limited:
            return {"max_iterations": _ETA**_USUAL} | _trials(room)
        case "pbt":
            return {"max_iterations": _of_population(room)}
        case "random" | "grid":
            count = (grid if algorithm == "grid" else None) or _TRIALS
            iterations = room.iterations_of_each(count) if room.is_known else _ETA**_USUAL
            return {"max_iterations": iterations} | (_trials(room) if algorithm == "random" else {})
        case _:
            return {}


def _largest(room: Room, in_turn: Callable[[int], Work], together: Callable[[int], Work]) -> int:
    """The largest exponent whose work, of one trial and of all, fits."""
    if not room.is_known:
        return _USUAL
    exponent = 1
    while exponent < _MOST and room.holds(in_turn(exponent + 1), together(exponent + 1)):
        exponent += 1
    return exponent


def _sum(exponent: int) -> int:
    """1 + 3 + 9 + ...: the iterations of the best trial of `sha`, and the trials of all its stages."""
    return int((_ETA ** (exponent + 1) - 1) // (_ETA - 1))


def _full(exponent: int) -> Work:
    return Work(_ETA**exponent, exponent + 1)


def _full_in_turns(exponent: int) -> Work:
    return Work(_TURNS * _ETA**exponent, _TURNS * (exponent + 1))


def _of_rungs(exponent: int) -> Work:
    return Work((exponent + 1) * _ETA**exponent, _sum(exponent))


def _of_brackets(exponent: int) -> Work:
    """At most: no bracket of Hyperband has more than the first."""
    return Work((exponent + 1) ** 2 * _ETA**exponent, (exponent + 1) * _sum(exponent))


def _trials(room: Room) -> dict[str, int]:
    """A number, unless a limit ends the search."""
    return {} if room.is_limited else {"trials": _ETA**_USUAL}


def _of_population(room: Room) -> int:
    """Whole intervals, at least two, so that the population changes once."""
    if not room.is_known:
        return _PBT_ITERATIONS
    return _PBT_INTERVAL * max(2, room.iterations_of_each(_PBT_TRIALS) // _PBT_INTERVAL)
