"""Rounds by the clock in which eliminated trials are paused, not stopped.

The best of them take the places of trials that fail or finish, at once, and compete again after every round;
if none is left, new ones are drawn. The last round lasts as long as the limits allow. A round may also
consist of new trials (`RoundCost.draws`): those of the round before pause until trials are compared.

Where models hop none of this holds: a model that is paused within an epoch cannot be resumed there, so
eliminated trials are stopped, as in `Rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from elastune.core import events
from elastune.core.policy import Vetoed
from elastune.core.state import State
from elastune.core.trials import Phase, Trial
from elastune.core.wishes import Advice
from elastune.model.ids import TrialId
from elastune.policies.costs import RoundCosts
from elastune.policies.round_track import RoundTrack, rest_of
from elastune.policies.rounds import Rounds

# How many times as long as planned the last round may last, if the limits allow it.
_MOST_SHARE = 100.0


class ResumingRounds(Rounds):
    substitutes = 0  # new trials that may still take the places of others

    def start(self, state: State) -> Advice:
        advice = super().start(state)
        self.substitutes = sum(len(leg.gangs) for legs in self.planned for leg in legs if leg.draws)
        return advice

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:
        if isinstance(event, events.TrialsSampled) and self.sampled:
            return self._admit([trial for trial, _ in event.trials], state)
        return super().handle(event, state)

    # Paused trials.

    def _ranked(self, track: RoundTrack, state: State) -> list[Trial]:
        if not _pauses(state):
            return super()._ranked(track, state)
        return state.rank([trial for trial in state.living() if not self._is_done(trial.number, state)])

    def _eliminate(self, out: list[TrialId], track: RoundTrack, state: State) -> Advice:
        """Their slots are free at once, without a save. The next best finish their iteration and save if they
        have no checkpoint yet, because they may be needed; as many as go on."""
        if not _pauses(state):
            return super()._eliminate(out, track, state)
        places = len(track.alive)
        dropped = (n for place, n in enumerate(out) if place >= places or state.trials[n].saved)
        return replace(self._advice(state), drop=tuple(dropped))

    def _eligible(self, track: RoundTrack, state: State) -> Sequence[TrialId]:
        return tuple(state.changes.cut) if _pauses(state) else super()._eligible(track, state)

    def _last_first(self, track: RoundTrack, state: State) -> Sequence[TrialId]:
        others = [trial.number for trial in self._ranked(track, state)] if _pauses(state) else []
        return tuple(dict.fromkeys([*super()._last_first(track, state), *others]))

    def _most_share(self, state: State) -> float:
        is_last = all(len(track.legs) <= 1 for track in self.tracks)
        return _MOST_SHARE if _pauses(state) and state.limits.are_set and is_last else 1.0

    def _substitute(self, number: TrialId, state: State) -> Advice | None:
        """The best eliminated trial takes the place of one that has failed or finished; better trials move
        up to its slots. If there is none, a new one is drawn, but not after an extension, and only so many
        for trials that failed: all of them might."""
        track = next((track for track in self.tracks if number in track.alive), None)
        if not _pauses(state) or track is None or not self._has_time(track, state):
            return None
        others = (trial for trial in self._ranked(track, state) if trial.number not in track.alive)
        substitute = next(others, None)
        failed = not _is_trained(state.trials[number], self.max_iterations)
        none_may_come = state.exhausted or self.awaited or self.goes_on or (failed and not self.substitutes)
        if substitute is None and none_may_come:
            return None
        track.alive = [each for each in track.alive if each != number]
        if substitute is not None:
            track.alive.append(substitute.number)
            return self._advice(state)
        self.substitutes -= failed
        self.awaited = 1
        return replace(self._advice(state), sample=1)

    def _has_time(self, track: RoundTrack, state: State) -> bool:
        """For an iteration of another trial before the rounds are over."""
        if track.ends_s is None or not self.begun:
            return False
        profile, rest_s = state.terms.profile, sum(leg.seconds for leg in track.rest(state.now_s))
        return rest_s >= profile.startup.mean + profile.iteration.mean / profile.speedup.at(track.gangs[-1])

    # Rounds of new trials.

    def _begin_round(self, track: RoundTrack, state: State) -> Advice:
        """A round of new trials begins when they are drawn."""
        if not track.legs or not track.legs[0].draws or state.exhausted:
            return super()._begin_round(track, state)
        track.alive, track.gangs = [], track.legs[0].gangs
        self.awaited = len(track.gangs)
        self.nodes = RoundCosts.of(state.terms).nodes_held(rest_of(self.tracks, state.now_s))
        return self._with_barrier(replace(self._advice(state), sample=self.awaited))

    def _admit(self, drawn: list[TrialId], state: State) -> Advice | None:
        track = self.tracks[0]
        self.awaited = 0
        track.alive = [*track.alive, *drawn][: len(track.gangs)]
        if track.ends_s is not None or not self.begun:
            return self._end_if_empty(state) or self._advice(state)
        if not drawn:  # no configuration is left: what follows has the time
            while track.legs and track.legs[0].draws:
                del track.legs[0]
                track.number += 1
            return self._compare(track, state)
        self._fit(state)
        return self._advice(state)


def _is_trained(trial: Trial, most: int | None) -> bool:
    is_complete = trial.phase is Phase.FINISHED or (trial.returned and not trial.phase.is_over)
    return is_complete or (most is not None and trial.has_done(most))


def _pauses(state: State) -> bool:
    return state.terms.data is None
