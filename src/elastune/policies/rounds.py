"""Rounds of training by the clock: at the end of each the best go on, with other slots, and the rest stop.

Runs the rounds of SEER, elastic Hyperband and elastic grid search, which decide on the rounds and on the
trials that go on. All nodes are up before the first round begins, so that every trial has the same time. A
round ends when its time is over and does not wait for stragglers. Time or money spent beyond the plan
shortens the coming rounds; their trials stay. New limits stretch the rest of the rounds (or shorten it) as
far as time and money allow; after the last round they give its trials one more.

If the policy `resumes`, eliminated trials are paused, not stopped. The best of them take the places of trials
that fail or finish, at once, and compete again after every round; if none is left, new ones are drawn. The
last round then lasts as long as the limits allow. A round may also consist of new trials (`draws`): those of
the round before pause until trials are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Progress, TrackProgress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.errors import InfeasibleError, JobError
from elastune.model.billing import bills_nodes, node_rate
from elastune.model.ids import TrialId
from elastune.policies.costs import RoundCost, RoundCosts, RoundTracks, money_for
from elastune.policies.extending import WARM_START, refuse_complete, stretch
from elastune.policies.outline import outline_of
from elastune.wording import plural

_BOOT = "rounds:boot"  # also in a pattern of `handle`, which takes no names
_ROUND = "round:"
# The longest wait for late boots, in seconds or as a share of the rounds: fewer nodes would cost more.
_PATIENCE_S = 1.0
_PATIENCE = 0.1
# The last round ends just before the last call, not at the same instant.
_IN_TIME = 1 - 1e-6
# Of what is left of a round when limits are new.
_LEAST_S = 1e-3
# How many times as long as planned the last round may last, if the limits allow it.
_MOST_SHARE = 100.0
_ROUNDING = 1e-9


@dataclass(slots=True)
class RoundTrack:
    legs: list[RoundCost]  # those not over; the first is the present one
    alive: list[TrialId] = field(default_factory=list)  # best first, in the order of `gangs`
    gangs: tuple[int, ...] = ()
    number: int = 0  # of the present round
    ends_s: float | None = None
    last: tuple[Sequence[TrialId], tuple[int, ...]] = ((), ())  # trials and gangs of its last round


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The trials that go on after a round, best first, and their gangs."""

    kept: list[Trial]
    gangs: tuple[int, ...]


Selection = Callable[[RoundTrack, list[Trial], State], Cut]
"""Takes the trials of a track that can go on, best first."""


class Rounds(Policy):
    """`schedule` makes rounds from the terms; `select` chooses the trials that go on."""

    def __init__(
        self,
        schedule: Callable[[RunTerms], RoundTracks],
        select: Selection,
        *,
        max_iterations: int | None,
        resumes: bool = False,
    ) -> None:
        self.schedule = schedule
        self.select = select
        self.max_iterations = max_iterations
        self.resumes = resumes
        self.planned: RoundTracks = ()
        self.begins_s: float | None = None  # of the first round, if planned again for fewer nodes
        self.tracks: list[RoundTrack] = []
        self.nodes = 0
        self.begun = False
        self.goes_on = False  # the run had ended and was extended: its trials are fixed
        self.sampled = False
        self.awaited = 0  # new trials that are being drawn for the first track
        self.substitutes = 0  # new trials that may still take the places of others
        self.stages = 0  # rounds that are over, on all tracks

    def start(self, state: State) -> Advice:
        tariff = RoundCosts.of(state.terms)
        self.resumes = self.resumes and state.terms.data is None  # where models hop, none is paused
        self.planned = planned = self.schedule(state.terms)
        self.tracks = [RoundTrack(list(legs), gangs=legs[0].gangs) for legs in planned]
        self.nodes = tariff.nodes_held(planned)
        self.substitutes = sum(len(leg.gangs) for legs in planned for leg in legs if leg.draws)
        patience_s = max(_PATIENCE_S, _PATIENCE * tariff.seconds(planned))
        return Advice(
            wishes=Wishes(nodes={0: self.nodes}, steady=False),
            sample=sum(len(track.gangs) for track in self.tracks),
            timers={_BOOT: state.now_s + tariff.boot_s + patience_s},
        )

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:  # noqa: PLR0911
        match event:
            case events.TrialsSampled() if self.sampled:
                return self._admit([trial for trial, _ in event.trials], state)
            case events.TrialsSampled():
                self._enter([trial for trial, _ in event.trials])
                return self._begin(state) or self._end_if_empty(state)
            case events.NodesReady() | events.TimerFired(timer="rounds:boot"):
                return self._begin(state)
            case events.TimerFired(timer=timer) if timer.startswith(_ROUND):
                return self._end_round(int(timer.removeprefix(_ROUND)), state)
            case events.Progressed() if events.has_stopped(event) and not self._is_done(event.trial, state):
                return self._advice(state)
            case events.LeaseEnded(reason=events.LeaseEnd.TIME) if self._is_last_to_stop(state):
                return replace(self._advice(state), done=Ending.COMPLETE)
            case events.RunExtended():
                return self._extend(state)
            case events.Progressed() | events.TrialPaused() | events.TrialStopAsked() if self._is_done(
                event.trial, state
            ):
                substituted = self._substitute(event.trial, state) if self.resumes else None
                return (
                    substituted
                    or self._end_if_empty(state)
                    or self._give_back(state.trials[event.trial], state)
                )
            case _:
                return None

    def progress(self, state: State) -> Progress:
        if not self.tracks:
            return Progress(by_clock=True)
        planned = outline_of(state.terms, self.planned).scheduled(self.begins_s)
        tracks = tuple(
            TrackProgress(
                stages=stages,
                present=track.number if track.legs and state.ended is None else len(stages),
                trains=track.ends_s is not None,
                ends_s=track.ends_s,
                pool=0 if len(planned) == 1 else None,
            )
            for stages, track in zip(planned, self.tracks, strict=True)
        )
        text = "the first round begins with the nodes that are up by then"
        boot_s = state.timers.get(_BOOT)
        upcoming = () if boot_s is None else (Upcoming(at_s=boot_s, text=text),)
        return Progress(by_clock=True, tracks=tracks, upcoming=upcoming)

    # Beginning.

    def _enter(self, drawn: list[TrialId]) -> None:
        """Give trials to the tracks; those for which there is no gang are left in the list."""
        self.sampled = True
        for track in self.tracks:  # if the space is exhausted the last tracks get fewer
            track.alive = drawn[: len(track.gangs)]
            del drawn[: len(track.gangs)]

    def _begin(self, state: State) -> Advice | None:
        """Begin when all nodes are up or, if others are late or were refused, at least one is."""
        pool = state.pool()
        waits = _BOOT in state.timers and pool.ready < pool.coming
        ready = pool.ready >= self.nodes or (not waits and pool.ready > 0)
        if self.begun or not self.sampled or not ready:
            return None
        self.begun = True
        asked = self.nodes
        stop = self._plan_for(state, pool.ready) if pool.ready < asked and not self.goes_on else []
        self._fit(state)
        advice = self._advice(state, stop=stop)
        if pool.ready >= asked:
            return advice
        dropped = f"; {plural(len(stop), 'trial')} of the first round dropped" if stop else ""
        note = f"{pool.ready} of {plural(asked, 'node')} came in time: begins with them{dropped}"
        return replace(advice, notes=(*advice.notes, ("rounds", note)))

    def _plan_for(self, state: State, nodes: int) -> list[TrialId]:
        """Plan other rounds for fewer nodes; returns the trials for which they have no gang."""
        terms, tariff = state.terms, RoundCosts.of(state.terms)
        left_s, left_usd = state.time_left_s, state.money_left_usd
        boot_usd = nodes * tariff.boot_s * terms.cluster.node_usd_per_s  # already paid
        limits = replace(
            state.limits,
            deadline_s=None if left_s is None else left_s + tariff.boot_s,
            budget_usd=None if left_usd is None else left_usd + boot_usd,
        )
        cluster = replace(terms.cluster, max_nodes=nodes)
        try:
            planned = self.schedule(replace(terms, cluster=cluster, limits=limits))
        except (InfeasibleError, JobError):  # a limit that its arithmetic needs may have been given up
            return []
        self.planned, self.begins_s = planned, state.now_s
        drawn = [trial for track in self.tracks for trial in track.alive]
        self.tracks = [RoundTrack(list(legs), gangs=legs[0].gangs) for legs in planned]
        self.nodes = tariff.nodes_held(planned)
        self._enter(drawn)
        return drawn

    # New limits.

    def refuses(self, request: events.RunExtended | events.ConfigAdded, state: State) -> str | None:
        if isinstance(request, events.ConfigAdded) or request.more_trials:
            return f"the rounds fix the number of trials, by deadline and budget; {WARM_START}"
        if state.ended is None or any(self._may_go_on(state)):
            return None
        return refuse_complete(state) or f"no trial is left to train; {WARM_START}"

    def _may_go_on(self, state: State) -> Iterator[TrialId]:
        """Trials that an extension would train further."""
        for track in self.tracks:
            for number in state.changes.cut if self.resumes else track.alive or track.last[0]:
                trial, most = state.trials[number], self.max_iterations
                if number in state.changes.cut and not (trial.returned or (most and trial.has_done(most))):
                    yield number

    def _extend(self, state: State) -> Advice:
        """What is left of the rounds gets all the time and money that is left."""
        # Without nodes, what is left begins when they are up again.
        timers = self._begin_again(state) if state.suspended else {}
        share = stretch(self.rest(state), state, booted=self.begun) * _IN_TIME
        for track in self.tracks:
            if track.ends_s is not None:
                track.ends_s = state.now_s + max(0.0, track.ends_s - state.now_s) * share
            track.legs = [replace(leg, seconds=leg.seconds * share) for leg in track.legs]
        self.planned = tuple(
            (*legs[: track.number], *track.legs) if track.legs else legs
            for legs, track in zip(self.planned, self.tracks, strict=True)
        )
        self.nodes = RoundCosts.of(state.terms).nodes_held(self.rest(state))
        note = f"the limits are new: the rest takes {share:.3g} times as long"
        return replace(self._advice(state), timers=timers, notes=(("rounds", note),))

    def _begin_again(self, state: State) -> dict[str, float]:
        """The rest of the present rounds, or one more round of the trials of the last one."""
        self.begun, self.goes_on = False, True
        for track in self.tracks:
            if track.legs and track.ends_s is not None:
                left_s = max(_LEAST_S, track.ends_s - state.now_s)
                track.legs[0] = replace(track.legs[0], seconds=left_s)
            elif not track.legs:
                going = [number for number in track.last[0] if not self._is_done(number, state)]
                if self.resumes:
                    going += [trial.number for trial in self._ranked(track, state)]
                kept = list(zip(dict.fromkeys(going), track.last[1], strict=False))
                track.alive, track.gangs = [number for number, _ in kept], tuple(slots for _, slots in kept)
                track.legs = [RoundCost(seconds=_LEAST_S, gangs=track.gangs)] if kept else []
            track.ends_s = None
        tariff = RoundCosts.of(state.terms)
        return {_BOOT: state.now_s + tariff.boot_s + max(_PATIENCE_S, _PATIENCE * tariff.boot_s)}

    # Rounds.

    def _end_round(self, number: int, state: State) -> Advice | None:
        track = self.tracks[number]
        if track.ends_s is None:
            return None
        track.ends_s = None
        del track.legs[0]
        track.number += 1
        if track.legs and track.legs[0].draws and not state.exhausted:
            return self._draw(track, state)
        return self._compare(track, state)

    def _compare(self, track: RoundTrack, state: State) -> Advice:
        """The best go on."""
        ranked = self._ranked(track, state)
        out = dict.fromkeys(trial.number for trial in ranked)
        if track.legs and ranked:
            cut = self.select(track, ranked, state)
            track.alive, track.gangs = [trial.number for trial in cut.kept], cut.gangs[: len(cut.kept)]
            track.legs[0] = replace(track.legs[0], gangs=track.gangs)
            for number in track.alive:
                del out[number]
        else:
            out.clear()
            track.last = track.alive, track.gangs
            track.legs, track.alive = [], []
        self._fit(state)
        if not self.resumes:
            advice = self._advice(state, stop=tuple(out))
        else:
            advice = replace(self._advice(state), drop=self._dropped(list(out), len(track.alive), state))
        return advice if advice.done is not None else self._with_barrier(advice)

    def _with_barrier(self, advice: Advice) -> Advice:
        self.stages += 1
        return replace(advice, barriers=((0, self.stages - 1),))

    def _ranked(self, track: RoundTrack, state: State) -> list[Trial]:
        """The trials that may go on, best first."""
        if self.resumes:
            return state.rank([trial for trial in state.living() if not self._is_done(trial.number, state)])
        return state.rank([t for t in map(state.trials.__getitem__, track.alive) if not t.phase.is_over])

    def _dropped(self, out: list[TrialId], places: int, state: State) -> tuple[TrialId, ...]:
        """Of eliminated trials, best first, those whose slots are free at once. The next best finish their
        iteration and save if they have no checkpoint yet, because they may be needed; as many as go on."""
        return tuple(n for place, n in enumerate(out) if place >= places or state.trials[n].saved)

    # New trials in later rounds, and in the places of others.

    def _draw(self, track: RoundTrack, state: State) -> Advice:
        """A round of new trials; it begins when they are drawn."""
        track.alive, track.gangs = [], track.legs[0].gangs
        self.awaited = len(track.gangs)
        self.nodes = RoundCosts.of(state.terms).nodes_held(self.rest(state))
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

    def _substitute(self, number: TrialId, state: State) -> Advice | None:
        """The best eliminated trial takes the place of one that has failed or finished; better trials move
        up to its slots. If there is none, a new one is drawn."""
        track = next((track for track in self.tracks if number in track.alive), None)
        if track is None or track.ends_s is None or not self.begun:
            return None
        rest_s = sum(leg.seconds for leg in self.rest(state)[self.tracks.index(track)])
        profile = state.terms.profile
        if rest_s < profile.startup.mean + profile.iteration.mean / profile.speedup.at(track.gangs[-1]):
            return None
        others = (trial for trial in self._ranked(track, state) if trial.number not in track.alive)
        substitute = next(others, None)
        sample = 0
        if substitute is None:
            if state.exhausted or self.awaited or not self.substitutes:
                return None
            sample = self.awaited = 1
            self.substitutes -= 1
        track.alive = [each for each in track.alive if each != number]
        if substitute is not None:
            track.alive.append(substitute.number)
        return replace(self._advice(state), sample=sample)

    def rest(self, state: State) -> list[list[RoundCost]]:
        """The coming rounds of each track, with what is left of the present one."""
        tracks = []
        for track in self.tracks:
            if track.legs and track.ends_s is not None:
                now = replace(track.legs[0], seconds=max(0.0, track.ends_s - state.now_s))
                tracks.append([now, *track.legs[1:]])
            elif track.legs:
                tracks.append(list(track.legs))
        return tracks

    def _fit(self, state: State) -> None:
        """Set the ends of the rounds that begin, shortened so that all coming rounds keep the limits."""
        # Later rounds keep their planned length: what is saved on the way is theirs.
        tariff, rest = RoundCosts.of(state.terms), self.rest(state)
        ends = self.resumes and state.limits.are_set and all(len(track.legs) <= 1 for track in self.tracks)
        share = _MOST_SHARE if ends else 1.0
        seconds, left_s = tariff.seconds(rest), state.time_left_s
        if left_s is not None and seconds > 0.0:
            share = min(share, max(0.0, left_s - tariff.save_s) / seconds * _IN_TIME)
        usd, left_usd = tariff.price_usd(rest, booted=True), money_for(state, tariff, rest)
        if left_usd is not None and usd > 0.0:
            share = min(share, max(0.0, left_usd - self._lag_usd(tariff, rest, state)) / usd)
        for track in self.tracks:
            if track.legs and track.ends_s is None:
                track.ends_s = state.now_s + track.legs[0].seconds * share
        self.nodes = tariff.nodes_held(self.rest(state))

    def _lag_usd(self, tariff: RoundCosts, rest: Sequence[Sequence[RoundCost]], state: State) -> float:
        """The cost of nodes to release that wait for a trial in the middle of an iteration."""
        if not bills_nodes(tariff.cluster):
            return 0.0
        surplus = max(0, len(state.where) - tariff.nodes_held(rest))
        staying = tariff.nodes_for(size for track in self.tracks if track.legs for size in track.gangs)
        return node_rate(tariff.cluster) * min(surplus, staying) * (tariff.profile.iteration.mean / 2)

    # Wishes.

    def _advice(self, state: State, *, stop: Sequence[TrialId] = ()) -> Advice:
        over = all(not track.legs for track in self.tracks)
        wishes = [] if over else [wish for track in self.tracks for wish in self._wishes(track, state)]
        wishes.sort(key=lambda wish: -wish.slots)
        ends = ((f"{_ROUND}{number}", track.ends_s) for number, track in enumerate(self.tracks))
        reviews = {timer: ends_s for timer, ends_s in ends if ends_s is not None}
        done = None
        if over or not (self._open(state) or self.awaited):
            hopeful = state.best or any(t.values or t.activity is not None for t in state.living())
            done = Ending.COMPLETE if hopeful else Ending.FAILED
        return Advice(
            wishes=Wishes(trials=tuple(wishes), nodes={0: self.nodes}, steady=False),
            stop=tuple(stop),
            reviews=reviews,
            done=done,
        )

    def _wishes(self, track: RoundTrack, state: State) -> list[Wish]:
        if track.ends_s is None:
            return []
        wishes = []
        for number, slots in zip(track.alive, track.gangs, strict=False):
            trial = state.trials[number]
            if not trial.phase.is_over:
                until, final = self._until(trial, slots, track, state)
                wishes.append(Wish(number, slots, until, final=final))
        return wishes

    def _until(self, trial: Trial, slots: int, track: RoundTrack, state: State) -> tuple[int, bool]:
        """Further than it can get in this round; a faster trial gets a longer lease when it gets there."""
        profile, seconds = state.terms.profile, (track.ends_s or state.now_s) - state.now_s
        each_s = profile.iteration.mean / profile.speedup.at(slots)
        most = 2 * int(seconds / each_s) + 8 if each_s else 1_000
        until = trial.iteration + most
        wish = state.wished.get(trial.number)
        if len(track.legs) > 1 and track.legs[1].draws:  # its slots are for new trials then
            until = self._until_next(track, each_s, state) if each_s else until
        elif wish is not None and wish.until_iteration > trial.iteration and wish.slots == slots:
            until = max(until, wish.until_iteration)
        if self.max_iterations is None:
            return until, False
        return min(until, self.max_iterations), until >= self.max_iterations

    def _until_next(self, track: RoundTrack, each_s: float, state: State) -> int:
        """As far as a new trial gets in this round: it pauses with a save, and no iteration is broken off."""
        training_s = track.legs[0].seconds - RoundCosts.of(state.terms).leg(track.number, 0.0, ()).seconds
        return max(1, int(training_s / each_s * (1 + _ROUNDING)))

    def _is_done(self, number: TrialId, state: State) -> bool:
        return state.trials[number].is_through(self.max_iterations)

    def _open(self, state: State) -> list[TrialId]:
        alive = (number for track in self.tracks for number in track.alive)
        return [number for number in alive if not self._is_done(number, state)]

    def _is_last_to_stop(self, state: State) -> bool:
        """In the last round no trial has time for another iteration."""
        if any(len(track.legs) > 1 for track in self.tracks) or state.best is None:
            return False
        busy = {Activity.STARTING, Activity.TRAINING}
        return not any(state.trials[number].activity in busy for number in state.held)

    def _give_back(self, trial: Trial, state: State) -> Advice | None:
        """Release the slots of a trial that is over before its round is."""
        for track in self.tracks:
            if trial.number in track.alive and trial.phase.is_over and track.legs:
                place = track.alive.index(trial.number)
                track.alive = track.alive[:place] + track.alive[place + 1 :]
                track.gangs = track.gangs[:place] + track.gangs[place + 1 :]
                track.legs[0] = replace(track.legs[0], gangs=track.gangs)
                needed = RoundCosts.of(state.terms).nodes_held(self.rest(state))
                if self.begun and needed < self.nodes:
                    self.nodes = needed
                    return self._advice(state)
        return None

    def _end_if_empty(self, state: State) -> Advice | None:
        """End before the clock does if no trial can train any more and all are saved."""
        saving = any(trial.activity is not None for trial in state.living())
        idle = self.sampled and not self.awaited and not self._open(state)
        return self._advice(state) if idle and not saving else None


def keep_best(track: RoundTrack, ranked: list[Trial], _: State) -> Cut:
    gangs = track.legs[0].gangs
    return Cut(kept=ranked[: len(gangs)], gangs=gangs)
