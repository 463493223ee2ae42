"""The simulated runtime: carries out the core's commands on a virtual clock.

Hours pass in milliseconds: the next entry of the agenda yields events for the core, whose commands add
further entries. Nodes come from a `SimulatedProvider` and are watched like those of a cloud.
"""

from __future__ import annotations

import heapq
import itertools
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.terms import RunTerms
from elastune.core.trials import Trial
from elastune.curves.source import Curve, CurveSource
from elastune.errors import InvariantError
from elastune.model.continuing import Continuing
from elastune.model.ids import NodeId, TrialId
from elastune.providers.watcher import Belief
from elastune.runtime.sampling import Sampling
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults, SimulatedCloud
from elastune.runtime.simulated.gang import CRASHED, KILLED, SimulatedGang
from elastune.runtime.simulated.latency import (
    CRASH,
    KILL,
    GangLuck,
    Latencies,
    TrialFactors,
    Visits,
    VisitTimes,
)
from elastune.space.sampler import Sampler

# The slowdown of BERT when its four GPUs are on four nodes, not one (3.80 / 2.15, see docs/simulating.md).
SCATTERED_FACTOR = 1.77


Brain = Callable[[AnyEvent], Sequence[AnyCommand]]
"""Takes an event, returns the commands to carry out."""


class SimulatedRuntime:
    """One run in virtual time. `step` handles the next entry of the agenda; `run` handles all."""

    def __init__(
        self,
        terms: RunTerms,
        *,
        trainable: CurveSource,
        sampler: Sampler,
        seed: int,
        checkpoint_every_s: float | None = None,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self.now_s = 0.0
        self.cloud = SimulatedCloud(terms.cluster, seed=seed, faults=faults, run_clock=lambda: self.now_s)
        self.gangs: dict[TrialId, SimulatedGang] = {}
        self.ended = False
        self._terms = terms
        self._trainable = trainable
        self._drawing = Sampling(sampler, terms.metric)
        self._seed = seed
        self._curves: dict[TrialId, Curve] = {}
        self._crashes = GangLuck(faults.crash, seed, CRASH)
        self._kills = GangLuck(faults.killed, seed, KILL)
        self._timers: dict[str, float] = {}
        self._watched_s: float | None = None
        self._agenda: list[tuple[float, bool, int, Callable[[], Iterable[AnyEvent]]]] = []
        self._order = itertools.count()
        self._rule = terms.checkpoint_rule(checkpoint_every_s)
        self.visits: dict[TrialId, VisitTimes] = {}
        self._visits = None
        configs = self._drawing.configs
        factors = TrialFactors(profile=terms.profile, seed=seed, config=configs.__getitem__)
        if terms.data is not None:
            self._visits = Visits(terms.profile, terms.data, seed=seed, rule=self._rule, trials=factors)
        self._latencies = Latencies(
            profile=terms.profile,
            seed=seed,
            slots_per_node=terms.cluster.slots_per_node,
            scattered_factor=SCATTERED_FACTOR,
            slowdown=lambda node: self.cloud.provider.slowdown(NodeId(node)),
            trials=factors,
        )

    def go_on(self, now_s: float, trials: Iterable[Trial]) -> None:
        """Begin in the middle of a run, without nodes: for forecasts."""
        self.now_s = now_s
        self._drawing.remember(trials)

    @property
    def next_s(self) -> float | None:
        """The time of the next entry of the agenda."""
        return self._agenda[0][0] if self._agenda else None

    def run(self, brain: Brain) -> None:
        """Until the run has ended and its last node is gone."""
        while self.step(brain):
            pass

    def step(self, brain: Brain) -> bool:
        """Handle the next entry of the agenda. False: it is empty."""
        if not self._agenda:
            if not self.ended:
                raise InvariantError(f"the agenda is empty at {self.now_s} s, but the run has not ended")
            return False
        at_s, _, _, happen = heapq.heappop(self._agenda)
        self.now_s = max(self.now_s, at_s)
        for event in happen():
            for command in brain(event):
                self.carry_out(command)
        return True

    def crash(self, down_s: float, belief: Belief) -> AnyEvent:
        """The driver dies, and its gangs with it; the cloud continues for `down_s`.

        Returns the first event of the next driver, whose journal says `belief` about nodes.
        """
        self.gangs.clear()
        self.visits.clear()
        self._timers.clear()
        self._agenda.clear()
        self._watched_s = None
        resumed, others = self.cloud.come_back(down_s, belief)
        self._at(self.now_s, lambda: self._pass_on(others))
        self._watch()
        return resumed

    def _event(self, kind: Callable[..., AnyEvent], cause: do.Train | do.Stow, **facts: Any) -> AnyEvent:
        """An event about the gang of this command, now."""
        return kind(at_s=self.now_s, trial=cause.trial, generation=cause.generation, **facts)

    # Commands.

    def carry_out(self, command: AnyCommand) -> None:  # noqa: C901, PLR0912  one case per command
        match command:
            case do.Train():
                self._train(command)
            case do.Pause():
                self._pause(command)
            case do.Revoke(trial=trial, generation=generation):
                gang = self._gang(trial, generation)
                if gang is not None and gang.training:
                    gang.stop_at = gang.plan_revocation(self.now_s)
                    self._set_alarm(trial, gang)
                    self._at(self.now_s, lambda: self._flush(trial, gang))
            case do.Stop(trial=trial, generation=generation):
                if self._gang(trial, generation) is not None:
                    del self.gangs[trial]
                if trial in self.visits and self.visits[trial].lease.generation == generation:
                    del self.visits[trial]
            case do.Stow():
                saved = {"iteration": command.iteration, "visits": command.visits}
                saved_s = self.now_s + self._rule.save_s
                self._at(saved_s, lambda: [self._event(ev.ModelStowed, command, **saved)])
            case do.Sample(trials=trials, given=given):
                self._at(self.now_s, lambda: [self._drawing.sample(trials, self.now_s, given)])
            case do.Fork(trial=trial, parent=parent):
                self._at(self.now_s, lambda: [self._drawing.fork(trial, parent, self.now_s)])
            case do.RequestNodes(request=request, count=count):
                self.cloud.request(request, count)
                self._watch()
            case do.ReleaseNodes(nodes=nodes):
                self.cloud.release(nodes)
                self._watch()
            case do.LimitNodes(most=most):
                self.cloud.provider.limit_nodes(most)
            case do.SetTimer(timer=timer, at_s=at_s, fresh=fresh):
                self._timers[timer] = at_s
                self._at(at_s, lambda: self._ring(timer, at_s, fresh=fresh), last=True)
            case do.CancelTimer(timer=timer):
                self._timers.pop(timer, None)
            case do.Barrier(pool=pool, stage=stage):
                at_s = self.now_s + self._latencies.barrier_s(pool, stage)
                self._at(at_s, lambda: [ev.BarrierPassed(at_s=self.now_s, pool=pool, stage=stage)])
            case do.EndRun():
                self.ended = True
            case do.Note() | do.Rest():
                pass

    def _gang(self, trial: TrialId, generation: int) -> SimulatedGang | None:
        gang = self.gangs.get(trial)
        return gang if gang is not None and gang.lease.generation == generation else None

    def _train(self, lease: do.Train) -> None:
        if lease.visit is not None:
            self._visit(lease, lease.visit)
            return
        trial = lease.trial
        gang = self._gang(trial, lease.generation)
        if gang is not None:
            gang.renew(lease, self.now_s)
            if gang.stop_at.reason is not None or gang.training:
                self._proceed(trial, gang)
            return
        pace = self._latencies.gang(trial, lease.generation, lease.gang)
        gang = SimulatedGang(
            lease,
            pace,
            self._curve(trial),
            self._rule,
            metric=self._terms.metric,
            crash_after=self._crashes.after(trial, lease),
            killed_after=self._kills.after(trial, lease),
            calls=self._terms.continuing is Continuing.CALLING,
        )
        self.gangs[trial] = gang
        done = lease.after_iteration
        started_s = self.now_s + pace.startup_s(loads=done > 0)
        repeated = done if self._terms.continuing is Continuing.REPEATING else 0
        self._at(started_s + gang.seconds_of(1, repeated), lambda: self._start(trial, gang, repeated))

    def _visit(self, lease: do.Train, visit: do.Visit) -> None:
        if self._visits is None:
            raise InvariantError(f"{lease} is a visit, but the job has no partitioned data")
        trial, iteration = lease.trial, lease.after_iteration + 1
        measured = self._curve(trial).seconds(iteration, iteration)
        slowdown = self.cloud.provider.slowdown(lease.gang[0].node)
        measured_s = measured[0] if measured else None
        times = self.visits[trial] = self._visits.plan(lease, visit, slowdown=slowdown, measured_s=measured_s)
        error = None if visit.done else self._fault(lease)
        if error is None:
            self._at(self.now_s + times.seconds, lambda: self._end_visit(times))
        else:
            self._at(self.now_s + times.seconds / 2, lambda: self._break_off(times, error))

    def _fault(self, lease: do.Train) -> str | None:
        """Asked on the first visit of an iteration only, so that faults are as frequent as those of gangs."""
        lucks = ((self._crashes, CRASHED), (self._kills, KILLED))
        return next((error for luck, error in lucks if luck.after(lease.trial, lease) is not None), None)

    def _break_off(self, times: VisitTimes, error: str) -> Iterable[AnyEvent]:
        lease = times.lease
        if self.visits.get(lease.trial) is times:
            del self.visits[lease.trial]
            yield self._event(ev.GangLost if error == KILLED else ev.TrialCrashed, lease, error=error)

    def _end_visit(self, times: VisitTimes) -> Iterable[AnyEvent]:
        lease, iteration = times.lease, times.lease.after_iteration + 1
        if self.visits.get(lease.trial) is not times or self._visits is None:
            return
        rows: tuple[ev.Row, ...] = ()
        if times.visit.is_last:
            try:
                metrics = self._curve(lease.trial).rows(iteration, iteration)
            except (Exception, SystemExit):  # noqa: BLE001  the user's code may raise anything
                yield from self._break_off(times, traceback.format_exc(limit=-3).strip())
                return
            rows = tuple(ev.Row(iteration, self.now_s, each) for each in metrics)
        del self.visits[lease.trial]
        if times.visit.is_last and not rows:
            yield self._event(ev.LeaseEnded, lease, reason=ev.LeaseEnd.RETURNED)
            return
        self._visits.ended(times)
        self._drawing.teach(lease.trial, rows)
        yield self._event(
            ev.VisitEnded,
            lease,
            rows=rows,
            saved=(iteration,) if rows else (),
            seconds=times.training_s,
            kept=times.kept,
            hopped=times.hopped,
        )

    def _proceed(self, trial: TrialId, gang: SimulatedGang) -> None:
        if not gang.training:
            gang.train(self.now_s)
        gang.stop_at = gang.plan(self.now_s)
        self._set_alarm(trial, gang)

    def _pause(self, command: do.Pause) -> None:
        trial, generation, stay = command.trial, command.generation, command.stay
        gang = self._gang(trial, generation)
        if gang is None:
            return

        def paused() -> Iterable[AnyEvent]:
            if self.gangs.get(trial) is gang:
                if not stay:
                    del self.gangs[trial]
                yield ev.TrialPaused(at_s=self.now_s, trial=trial, generation=generation, stays=stay)

        self._at(self.now_s + gang.pace.save_s(), paused)

    def _curve(self, trial: TrialId) -> Curve:
        if trial not in self._curves:
            self._curves[trial] = self._trainable.curve(self._drawing.configs[trial], (self._seed, trial))
        return self._curves[trial]

    # The agenda.

    def _at(self, at_s: float, happen: Callable[[], Iterable[AnyEvent]], *, last: bool = False) -> None:
        """`last`: timers fire after all else at their instant, so what ends at the deadline is in time."""
        heapq.heappush(self._agenda, (at_s, last, next(self._order), happen))

    def _ring(self, timer: str, at_s: float, *, fresh: bool) -> Iterable[AnyEvent]:
        if self._timers.get(timer) != at_s:
            return
        if fresh:
            for trial, gang in tuple(self.gangs.items()):
                yield from self._flush(trial, gang)
        if self._timers.get(timer) == at_s:  # the core may have moved it
            del self._timers[timer]
            yield ev.TimerFired(at_s=self.now_s, timer=timer)

    def _start(self, trial: TrialId, gang: SimulatedGang, repeated: int) -> Iterable[AnyEvent]:
        if self.gangs.get(trial) is not gang:
            return
        yield self._event(ev.GangStarted, gang.lease, repeated=repeated)
        if self.gangs.get(trial) is gang and not gang.training:
            self._proceed(trial, gang)

    def _set_alarm(self, trial: TrialId, gang: SimulatedGang) -> None:
        """For the next report of this gang."""
        gang.version += 1
        version = gang.version
        at_s = gang.next_report_s()
        if at_s is None:
            self._at(gang.stop_at.at_s, lambda: self._stop(trial, gang, version))
        else:
            self._at(at_s, lambda: self._report(trial, gang, version))

    def _report(self, trial: TrialId, gang: SimulatedGang, version: int) -> Iterable[AnyEvent]:
        if self.gangs.get(trial) is not gang or gang.version != version:
            return
        rows, saved = gang.report(self.now_s, gang.done(self.now_s))
        self._drawing.teach(trial, rows)
        yield self._event(ev.Progressed, gang.lease, rows=rows, saved=saved)
        if self.gangs.get(trial) is gang and gang.version == version:
            self._set_alarm(trial, gang)

    def _flush(self, trial: TrialId, gang: SimulatedGang) -> Iterable[AnyEvent]:
        """Report all up to now: the gang may be lost before its iteration ends."""
        if self.gangs.get(trial) is gang and gang.training:
            rows, saved = gang.report(self.now_s, gang.done(self.now_s))
            self._drawing.teach(trial, rows)
            if rows or saved:
                yield self._event(ev.Progressed, gang.lease, rows=rows, saved=saved)

    def _stop(self, trial: TrialId, gang: SimulatedGang, version: int) -> Iterable[AnyEvent]:
        if self.gangs.get(trial) is not gang or gang.version != version:
            return
        gang.halt()
        stop = gang.stop_at
        rows, saved = gang.report(self.now_s, stop.iteration)
        self._drawing.teach(trial, rows)
        if stop.reason is None:
            del self.gangs[trial]
            kind = ev.GangLost if stop.error == KILLED else ev.TrialCrashed
            yield self._event(kind, gang.lease, rows=rows, saved=saved, error=stop.error)
        else:
            yield self._event(ev.LeaseEnded, gang.lease, rows=rows, saved=saved, reason=stop.reason)

    # Nodes.

    def _watch(self) -> None:
        """Schedule a look for when the cloud will have news."""
        at_s = self.cloud.next_news_s()
        if at_s is not None and (self._watched_s is None or at_s < self._watched_s):
            self._watched_s = at_s
            self._at(at_s, self._look)

    def _look(self) -> Iterable[AnyEvent]:
        self._watched_s = None
        yield from self._pass_on(self.cloud.look())
        self._watch()

    def _pass_on(self, news: Iterable[AnyEvent]) -> Iterable[AnyEvent]:
        for event in news:
            if isinstance(event, ev.NodeLost):
                self._drop_gangs_on(event.node)
            yield event

    def _drop_gangs_on(self, node: NodeId) -> None:
        for trial, gang in tuple(self.gangs.items()):
            if any(slot.node == node for slot in gang.lease.gang):
                del self.gangs[trial]
        for trial, times in tuple(self.visits.items()):
            if times.lease.gang[0].node == node:
                del self.visits[trial]
