"""Rounds of training by the clock: at the end of each the best go on, with other slots, and the rest stop.

Runs the rounds of SEER, elastic Hyperband and elastic grid search, which decide on the rounds and on the
trials that go on. All nodes are up before the first round begins, so that every trial has the same time. A
round ends when its time is over and does not wait for stragglers. Time or money spent beyond the plan
shortens the coming rounds; their trials stay. New limits stretch the rest of the rounds (or shorten it) as
far as time and money allow; after the last round they give its trials one more.

Eliminated trials are stopped; `ResumingRounds` pauses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from elastune.core import events
from elastune.core.commands import Ending
from elastune.core.policy import Policy, Progress, TrackProgress, Upcoming, Vetoed
from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Activity, Trial
from elastune.core.wishes import Advice, Wishes
from elastune.errors import InfeasibleError, JobError
from elastune.model.ids import TrialId
from elastune.policies.costs import RoundCost, RoundCosts, RoundTracks
from elastune.policies.extending import WARM_START, refuse_complete, stretch
from elastune.policies.outline import outline_of
from elastune.policies.round_track import IN_TIME, RoundTrack, Selection, fitting_share, rest_of
from elastune.wording import plural

_BOOT = "rounds:boot"  # also in a pattern of `handle`, which takes no names
_ROUND = "round:"
# The longest wait for late boots, in seconds or as a share of the rounds: fewer nodes would cost more.
_PATIENCE_S = 1.0
_PATIENCE = 0.1
# Of what is left of a round when limits are new.
_LEAST_S = 1e-3


class Rounds(Policy):
    """`schedule` makes rounds from the terms; `select` chooses the trials that go on."""

    def __init__(
        self,
        schedule: Callable[[RunTerms], RoundTracks],
        select: Selection,
        *,
        max_iterations: int | None,
    ) -> None:
        self.schedule = schedule
        self.select = select
        self.max_iterations = max_iterations
        self.planned: RoundTracks = ()
        self.begins_s: float | None = None  # of the first round, if planned again for fewer nodes
        self.tracks: list[RoundTrack] = []
        self.nodes = 0
        self.begun = False
        self.goes_on = False  # the run had ended and was extended: its trials are fixed
        self.sampled = False
        self.awaited = 0  # new trials that are being drawn for the first track
        self.stages = 0  # rounds that are over, on all tracks

    def start(self, state: State) -> Advice:
        tariff = RoundCosts.of(state.terms)
        self.planned = planned = self.schedule(state.terms)
        self.tracks = [RoundTrack.of(legs) for legs in planned]
        self.nodes = tariff.nodes_held(planned)
        patience_s = max(_PATIENCE_S, _PATIENCE * tariff.seconds(planned))
        return Advice(
            wishes=Wishes(nodes={0: self.nodes}, steady=False),
            sample=sum(len(track.gangs) for track in self.tracks),
            timers={_BOOT: state.now_s + tariff.boot_s + patience_s},
        )

    def handle(self, event: events.AnyEvent | Vetoed, state: State) -> Advice | None:  # noqa: PLR0911
        match event:
            case events.TrialsSampled():
                self._enter([trial for trial, _ in event.trials])
                return self._begin(state) or self._end_if_empty(state)
            case events.NodesReady() | events.TimerFired(timer="rounds:boot"):
                return self._begin(state)
            case events.TimerFired(timer=timer) if timer.startswith(_ROUND):
                return self._end_round(int(timer.removeprefix(_ROUND)), state)
            case events.Progressed() if events.has_stopped(event) and not self._is_done(event.trial, state):
                return self._go_on(state.trials[event.trial], state)
            case events.LeaseEnded(reason=events.LeaseEnd.TIME) if self._is_last_to_stop(state):
                return replace(self._advice(state), done=Ending.COMPLETE)
            case events.RunExtended():
                return self._extend(state)
            case events.Progressed() | events.TrialPaused() | events.TrialStopAsked() if self._is_done(
                event.trial, state
            ):
                return (
                    self._substitute(event.trial, state)
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
        self.tracks = [RoundTrack.of(legs) for legs in planned]
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
            for number in self._eligible(track, state):
                trial, most = state.trials[number], self.max_iterations
                if number in state.changes.cut and not (trial.returned or (most and trial.has_done(most))):
                    yield number

    def _eligible(self, track: RoundTrack, _: State) -> Sequence[TrialId]:
        """The trials of the last round, or of the present one; some may be over."""
        return track.alive or track.last[0]

    def _extend(self, state: State) -> Advice:
        """What is left of the rounds gets all the time and money that is left."""
        # Without nodes, what is left begins when they are up again.
        timers = self._begin_again(state) if state.suspended else {}
        share = stretch(rest_of(self.tracks, state.now_s), state, booted=self.begun) * IN_TIME
        for track in self.tracks:
            if track.ends_s is not None:
                track.ends_s = state.now_s + max(0.0, track.ends_s - state.now_s) * share
            track.legs = [replace(leg, seconds=leg.seconds * share) for leg in track.legs]
        self.planned = tuple(
            (*legs[: track.number], *track.legs) if track.legs else legs
            for legs, track in zip(self.planned, self.tracks, strict=True)
        )
        self.nodes = RoundCosts.of(state.terms).nodes_held(rest_of(self.tracks, state.now_s))
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
                going = (n for n in self._last_first(track, state) if not self._is_done(n, state))
                kept = list(zip(going, track.last[1], strict=False))
                track.alive, track.gangs = [number for number, _ in kept], tuple(slots for _, slots in kept)
                track.legs = [RoundCost(seconds=_LEAST_S, gangs=track.gangs)] if kept else []
            track.ends_s = None
        tariff = RoundCosts.of(state.terms)
        return {_BOOT: state.now_s + tariff.boot_s + max(_PATIENCE_S, _PATIENCE * tariff.boot_s)}

    def _last_first(self, track: RoundTrack, _: State) -> Sequence[TrialId]:
        """The trials of one more round, in the order in which they get its gangs."""
        return track.last[0]

    # Rounds.

    def _end_round(self, number: int, state: State) -> Advice | None:
        track = self.tracks[number]
        if track.ends_s is None:
            return None
        track.ends_s = None
        del track.legs[0]
        track.number += 1
        return self._begin_round(track, state)

    def _begin_round(self, track: RoundTrack, state: State) -> Advice:
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
        advice = self._eliminate(list(out), track, state)
        return advice if advice.done is not None else self._with_barrier(advice)

    def _eliminate(self, out: list[TrialId], _: RoundTrack, state: State) -> Advice:
        """`out`: best first."""
        return self._advice(state, stop=out)

    def _with_barrier(self, advice: Advice) -> Advice:
        self.stages += 1
        return replace(advice, barriers=((0, self.stages - 1),))

    def _ranked(self, track: RoundTrack, state: State) -> list[Trial]:
        """The trials that may go on, best first."""
        return state.rank([t for t in map(state.trials.__getitem__, track.alive) if not t.phase.is_over])

    def _fit(self, state: State) -> None:
        """Set the ends of the rounds that begin, shortened so that all coming rounds keep the limits."""
        # Later rounds keep their planned length: what is saved on the way is theirs.
        share = fitting_share(self.tracks, state, most=self._most_share(state))
        for track in self.tracks:
            if track.legs and track.ends_s is None:
                track.ends_s = state.now_s + track.legs[0].seconds * share
        self.nodes = RoundCosts.of(state.terms).nodes_held(rest_of(self.tracks, state.now_s))

    def _most_share(self, _: State) -> float:
        """How many times as long as planned the coming rounds may last."""
        return 1.0

    # Wishes.

    def _advice(self, state: State, *, stop: Sequence[TrialId] = ()) -> Advice:
        over = all(not track.legs for track in self.tracks)
        most = self.max_iterations
        wishes = [] if over else [wish for track in self.tracks for wish in track.wishes(most, state)]
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

    def _go_on(self, trial: Trial, state: State) -> Advice | None:
        """A longer lease, unless the trial has had its turn."""
        if any(track.has_reached_its_end(trial, state) for track in self.tracks):
            return None
        return self._advice(state)

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

    def _substitute(self, _: TrialId, __: State) -> Advice | None:
        """What takes the place of a trial that is over before its round is."""
        return None

    def _give_back(self, trial: Trial, state: State) -> Advice | None:
        """Release the slots of a trial that is over before its round is."""
        for track in self.tracks:
            if trial.number in track.alive and trial.phase.is_over and track.legs:
                place = track.alive.index(trial.number)
                track.alive = track.alive[:place] + track.alive[place + 1 :]
                track.gangs = track.gangs[:place] + track.gangs[place + 1 :]
                track.legs[0] = replace(track.legs[0], gangs=track.gangs)
                needed = RoundCosts.of(state.terms).nodes_held(rest_of(self.tracks, state.now_s))
                if self.begun and needed < self.nodes:
                    self.nodes = needed
                    return self._advice(state)
        return None

    def _end_if_empty(self, state: State) -> Advice | None:
        """End before the clock does if no trial can train any more and all are saved."""
        saving = any(trial.activity is not None for trial in state.living())
        idle = self.sampled and not self.awaited and not self._open(state)
        return self._advice(state) if idle and not saving else None
