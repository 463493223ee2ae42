"""The Ray body: the core's commands in real processes.

One loop on the driver: it waits for news from the agents, for timers and for the provider, tells the core
all that came together as one batch, and carries out what the core commands. Everything slow happens
elsewhere.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.terms import RunTerms
from elastune.model.ids import NodeId, TrialId
from elastune.runtime.ray import messages as msg
from elastune.runtime.ray.fleet import Dispatch, ModelPlaces, NodeFleet, ProviderNodes, RealGang, RunClock
from elastune.runtime.ray.model_transfer import ModelSaver
from elastune.runtime.ray.node_connections import SlotShare
from elastune.runtime.sampling import Sampling
from elastune.space.sampler import Sampler
from elastune.training.worker import trial_seed
from elastune.wording import format_duration

Brain = Callable[[Sequence[AnyEvent]], Sequence[AnyCommand]]
"""Takes what happened since it was asked last, in order, and returns what is to be done."""

# The loop looks around at least so often, for Ctrl-C and for whoever asks the run to stop.
_BEAT_S = 0.2
_STANDSTILL_S = 2.0
_FLUSH_S = 1.0
# A gang that has saved may take its time to clean up, but not for ever.
_CLEAN_UP_S = 5.0
# Nodes in a row on which no worker starts, after which none is believed to.
_MOST_DUDS = 3
_LEAST_PATIENCE_S = 300.0
_PATIENCE_ITERATIONS = 20.0


class RayRuntime:
    """`hang_after_s`: how long nothing may be heard of a gang; None: by what the profile says."""

    def __init__(
        self,
        terms: RunTerms,
        *,
        machines: ProviderNodes,
        sampler: Sampler,
        worker_spec: msg.WorkerSpec,
        seed: int,
        clock: RunClock,
        hang_after_s: float | None = None,
    ) -> None:
        self.now_s = clock()
        self.ended = False
        self.failure: str | None = None
        """Why no trial can be trained at all; None: nothing of the kind."""
        self.hindrance: str | None = None
        """What somebody has to mend before the run can go on; None: nothing."""
        self.machines = machines
        cpus, gpus = machines.provider.resources()
        self.fleet = NodeFleet(SlotShare(terms.cluster.slots_per_node, cpus, gpus))
        self.gangs: dict[TrialId, RealGang] = {}
        self.models = ModelPlaces()
        self.drawing = Sampling(sampler, terms.metric)
        self._terms = terms
        self._sealed = worker_spec.seal()
        self._stower = ModelSaver(worker_spec.store, pickles=worker_spec.pickles)
        self._seed = seed
        self._clock = clock
        self._hang_after_s = hang_after_s
        self._warm: dict[NodeId, set[int]] = {}
        self._duds = 0
        self._formed: dict[TrialId, int] = {}
        """The last generation of each trial's gang that was formed."""
        self._pending: list[AnyEvent] = []
        self._timers: dict[str, float] = {}
        self._fresh: set[str] = set()
        self._alarms: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._flushes = itertools.count(1)
        self._awaited: tuple[int, int] = (0, 0)

    @property
    def is_idle(self) -> bool:
        """The run has ended, and the provider owes nothing any more."""
        return self.ended and not self._warm and not self.machines.is_waiting

    def ask_to_stop(self, reason: str) -> None:
        """Somebody wants the run to end. It winds up: saves, releases, and returns the best so far."""
        self._pending.append(ev.StopAsked(at_s=self._clock(), reason=reason))

    def ask_to_suspend(self, reason: str) -> None:
        """The same, but the run can be resumed."""
        self._pending.append(ev.RestAsked(at_s=self._clock(), reason=reason))

    def step(self, brain: Brain) -> None:
        """Wait for something to happen, and let the core deal with it."""
        dispatches = list(self.fleet.receive(self._timeout_s()))
        self._tick()
        events = [event for dispatch in dispatches for event in self._hear(dispatch)]
        events += self._look()
        events += self._watch()
        events += self._stower.done(self.now_s)
        self._decide(brain, events)
        for events in iter(self._ring, []):
            self._decide(brain, events)
        self.fleet.send()

    def _decide(self, brain: Brain, events: list[AnyEvent]) -> None:
        """Answers that need no outside world (configurations, barriers) come in the same breath."""
        while events or self._pending:
            told = _in_time([*events, *self._pending])
            events, self._pending = [], []
            self.now_s = max(self.now_s, told[-1].at_s)
            for command in brain(told):
                self.carry_out(command)

    def _tick(self) -> None:
        now_s = self._clock()
        stood_s = now_s - self.now_s
        if stood_s > _STANDSTILL_S:  # this process was stopped or busy: nobody could be heard
            for gang in self.gangs.values():
                gang.heard_s += stood_s
        self.now_s = max(self.now_s, now_s)

    def _timeout_s(self) -> float:
        if self._pending:
            return 0.0
        waits = [_BEAT_S, self.machines.due_s()]
        if self._alarms:
            waits.append(self._alarms[0][0] - self._clock())
        return max(0.0, min(waits))

    # Commands.

    def carry_out(self, command: AnyCommand) -> None:  # noqa: C901, PLR0912  one case per command
        match command:
            case do.Train():
                self._train(command)
            case do.Revoke(trial=trial, generation=generation):
                self._tell_first(trial, generation, msg.Halt)
            case do.Pause(trial=trial, generation=generation):
                gang = self._tell_first(trial, generation, msg.Keep)
                if gang is not None:
                    gang.busy, gang.heard_s = True, self.now_s
            case do.Stop(trial=trial, generation=generation):
                gang = self._gang(trial, generation)
                if gang is not None:
                    self._dissolve(gang)
            case do.Stow():
                self._stower.stow(command, self.models.newest(command.trial))
            case do.Sample(trials=trials):
                self._pending.append(self.drawing.sample(trials, self.now_s))
            case do.Fork(trial=trial, parent=parent):
                self._pending.append(self.drawing.fork(trial, parent, self.now_s))
            case do.RequestNodes(request=request, count=count):
                self.machines.request(request, count)
            case do.ReleaseNodes(nodes=nodes):
                self._release(nodes)
            case do.SetTimer(timer=timer, at_s=at_s, fresh=fresh):
                self._timers[timer] = at_s
                (self._fresh.add if fresh else self._fresh.discard)(timer)
                heapq.heappush(self._alarms, (at_s, next(self._order), timer))
            case do.CancelTimer(timer=timer):
                self._timers.pop(timer, None)
            case do.Barrier(pool=pool, stage=stage):
                self._pending.append(ev.BarrierPassed(at_s=self.now_s, pool=pool, stage=stage))
            case do.EndRun() | do.Rest():
                self.ended = True
            case do.Note():
                pass

    def _gang(self, trial: int, generation: int) -> RealGang | None:
        gang = self.gangs.get(TrialId(trial))
        return gang if gang is not None and gang.lease.generation == generation else None

    def _train(self, lease: do.Train) -> None:
        gang = self._gang(lease.trial, lease.generation)
        if gang is not None:
            gang.lease, gang.busy, gang.heard_s = lease, True, self.now_s
            terms = self._terms_of(lease, lease.gang[0].node)
            self.fleet.order(lease.gang[0], msg.Extend(gang=gang.id, terms=terms))
            return
        if lease.generation <= self._formed.get(lease.trial, 0) or any(
            slot.node not in self.fleet for slot in lease.gang
        ):
            return  # it broke in the same breath, and the core has been told
        self._formed[lease.trial] = lease.generation
        size = len(lease.gang)
        expected_s = self._terms.profile.iteration.mean / self._terms.profile.speedup.at(size)
        gang = RealGang(lease, self.now_s, self._patience_s(expected_s))
        self.gangs[lease.trial] = gang
        form = msg.Form(
            gang=gang.id,
            rank=0,
            size=size,
            config=dict(self.drawing.configs[lease.trial]),
            seed=trial_seed(self._seed, lease.trial),
            after_iteration=lease.after_iteration,
            origin=lease.trial if lease.origin is None else lease.origin,
            expected_s=expected_s,
            terms=self._terms_of(lease, lease.gang[0].node),
        )
        if lease.visit is not None:
            self._send_on_visit(gang, lease.visit, form)
            return
        self.models.forget(lease.trial)
        shares = lease.shares or ((),) * size
        for rank, slot in enumerate(lease.gang):
            self.fleet.order(slot, replace(form, rank=rank, share=shares[rank]))

    def _send_on_visit(self, gang: RealGang, visit: do.Visit, form: msg.Form) -> None:
        """And have the next model brought there meanwhile."""
        lease = gang.lease
        (slot,), (share,) = lease.gang, lease.shares
        found = self.models.find(lease)
        if found is not None and not isinstance(found.model.data, bytes):
            gang.awaits = found.slot.node
        model = None if found is None else found.model
        self.fleet.order(slot, replace(form, share=share, visit=msg.VisitOrder(*visit), model=model))
        if lease.then is not None:
            coming = self.models.newest(lease.then, elsewhere_than=slot)
            if coming is not None:
                self.fleet.order(slot, msg.Bring(model=coming))

    def _terms_of(self, lease: do.Train, node: NodeId) -> msg.GangTerms:
        until = None
        if lease.until_s is not None:
            until = self._clock.monotonic(lease.until_s) + self.fleet.clock_of(node)
        return msg.GangTerms(until_iteration=lease.until_iteration, until=until, keep_above=lease.keep_above)

    def _patience_s(self, expected_s: float) -> float:
        """Of an iteration and a save, of which either may be under way."""
        given = self._hang_after_s
        usual = max(_LEAST_PATIENCE_S, _PATIENCE_ITERATIONS * expected_s) if given is None else given
        return usual + 2 * self._terms.save_allowance_s

    def _tell_first(self, trial: int, generation: int, order: type[msg.Halt | msg.Keep]) -> RealGang | None:
        gang = self._gang(trial, generation)
        if gang is not None:
            self.fleet.order(gang.lease.gang[0], order(gang=gang.id))
        return gang

    def _dissolve(self, gang: RealGang, grace_s: float = 0.25) -> None:
        self.gangs.pop(gang.lease.trial, None)
        for slot in gang.lease.gang:
            self.fleet.order(slot, msg.Dissolve(gang=gang.id, grace_s=grace_s))

    def _release(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            self._warm.pop(node, None)
            self.models.forget_node(node)
            self.fleet.stop(node)
        self.machines.release(nodes)

    # News of nodes.

    def _look(self) -> Iterator[AnyEvent]:
        broken = self.machines.provider.broken
        if broken is not None:
            yield from self._suspend_for(broken)
        for event in self.machines.look():
            if isinstance(event, ev.NodeLost):
                self._drop(event.node)
            yield event
            if isinstance(event, ev.NodeLost):
                yield from self._bereaved(event.node)
        for node in self.machines.came_up():
            ray_node = self.machines.provider.ray_node(node)
            if ray_node is not None and not self.ended:
                self._warm[node] = set()
                self.fleet.start(node, ray_node, self._sealed)

    def _drop(self, node: NodeId) -> None:
        """Gangs with a part there are gone; their other parts dissolve."""
        self._warm.pop(node, None)
        self.models.forget_node(node)
        self.fleet.stop(node)
        for gang in tuple(self.gangs.values()):
            if any(slot.node == node for slot in gang.lease.gang):
                self._dissolve(gang)

    def _bereaved(self, node: NodeId) -> Iterator[AnyEvent]:
        """Visits whose model was to come from there: Ray would look for it for many seconds."""
        for gang in tuple(self.gangs.values()):
            if gang.awaits == node:
                self._dissolve(gang)
                yield ev.GangLost(
                    at_s=self.now_s,
                    trial=gang.lease.trial,
                    generation=gang.lease.generation,
                    error=f"its model was lost with {node}",
                    model_lost=True,
                )

    def _broken(self, node: NodeId, error: str) -> Iterator[AnyEvent]:
        """Its machine may be up, but nothing answers there: it is given back."""
        warm = self._warm.get(node)
        if warm is None:
            return
        if len(warm) < self._terms.cluster.slots_per_node:
            self._duds += 1
        self._drop(node)
        self.machines.release([node])
        yield ev.NodeLost(at_s=self.now_s, node=node)
        yield from self._bereaved(node)
        if self._duds >= _MOST_DUDS:
            yield from self._give_up(f"nodes come up, but no worker starts there: {error}")

    def _slot_ready(self, node: NodeId, slot: int) -> Iterator[AnyEvent]:
        warm = self._warm.get(node)
        if warm is None or len(warm) == self._terms.cluster.slots_per_node:
            return
        warm.add(slot)
        if len(warm) == self._terms.cluster.slots_per_node:
            self._duds = 0
            yield ev.NodesReady(at_s=self.now_s, nodes=(node,), hosts=self._hosts(node))

    def _hosts(self, node: NodeId) -> tuple[tuple[str, ...], ...]:
        """What its machine is called; asked only where data are on certain machines."""
        if self._terms.data is None or not self._terms.data.hosts:
            return ()
        return (self.machines.host_names(node),)

    def _unfit(self, node: NodeId, error: str) -> Iterator[AnyEvent]:
        """Where workers have started before, it is the node; where none has, nothing will ever train."""
        if any(len(warm) == self._terms.cluster.slots_per_node for warm in self._warm.values()):
            yield from self._broken(node, error)
        else:
            yield from self._give_up(f"the workers cannot start:\n{error}")

    def _suspend_for(self, reason: str) -> Iterator[AnyEvent]:
        """Somebody has to look after something; then the run can go on."""
        if self.hindrance is None and not self.ended:
            self.hindrance = reason
            yield ev.RestAsked(at_s=self.now_s, reason=reason)

    def _give_up(self, failure: str) -> Iterator[AnyEvent]:
        """Nothing can be trained any more: what is saved is kept, and the run ends."""
        if self.failure is None and not self.ended:
            self.failure = failure
            yield ev.StopAsked(at_s=self.now_s, reason=failure)

    # News of gangs.

    def _hear(self, dispatch: Dispatch) -> Iterator[AnyEvent]:
        node, offset, news, error = dispatch
        match news:
            case None:
                yield from self._broken(node, error)
            case msg.AgentFailed(error=error):
                yield from self._broken(node, error)
            case msg.SlotReady(slot=slot):
                yield from self._slot_ready(node, slot)
            case msg.SlotUnfit(error=error):
                yield from self._unfit(node, error)
            case msg.Flushed(number=number):
                if number == self._awaited[0]:
                    self._awaited = number, self._awaited[1] - 1
            case msg.SlotIdle():
                pass
            case msg.Unreadable(error=error):
                yield from self._suspend_for(error)
            case _:
                gang = self._gang(*news.gang)
                if gang is not None:
                    gang.heard_s = self.now_s
                    yield from self._hear_gang(gang, news, offset)

    def _hear_gang(
        self,
        gang: RealGang,
        news: msg.Listening | msg.GangBegan | msg.Trained | msg.Visited | msg.Kept | msg.Broken,
        offset: float,
    ) -> Iterator[AnyEvent]:
        trial, generation = gang.lease.trial, gang.lease.generation
        match news:
            case msg.Listening(meeting=meeting):
                for slot in gang.lease.gang[1:]:
                    self.fleet.order(slot, msg.Join(gang=gang.id, meeting=meeting))
            case msg.GangBegan() if gang.lease.visit is not None:
                gang.started()
            case msg.Visited():
                yield self._visited(gang, news, offset)
            case msg.GangBegan():
                gang.started()
                yield ev.GangStarted(at_s=self.now_s, trial=trial, generation=generation)
            case msg.Trained(saved=saved, reason=reason):
                rows = self._rows(trial, news.rows, offset)
                if reason is None:
                    yield ev.Progressed(
                        at_s=self.now_s, trial=trial, generation=generation, rows=rows, saved=saved
                    )
                else:
                    gang.busy = False
                    yield ev.LeaseEnded(
                        at_s=self.now_s,
                        trial=trial,
                        generation=generation,
                        rows=rows,
                        saved=saved,
                        reason=ev.LeaseEnd(reason),
                    )
            case msg.Kept():
                self._dissolve(gang, _CLEAN_UP_S)
                yield ev.TrialPaused(at_s=self.now_s, trial=trial, generation=generation)
            case msg.Broken():
                self._dissolve(gang)
                yield self._broken_off(trial, generation, news, offset)

    def _broken_off(self, trial: TrialId, generation: int, news: msg.Broken, offset: float) -> AnyEvent:
        rows = self._rows(trial, news.rows, offset)
        if news.fault:
            return ev.TrialCrashed(
                at_s=self.now_s,
                trial=trial,
                generation=generation,
                rows=rows,
                saved=news.saved,
                error=news.error,
            )
        if news.model_lost:
            self.models.forget(trial)
        return ev.GangLost(
            at_s=self.now_s,
            trial=trial,
            generation=generation,
            rows=rows,
            saved=news.saved,
            error=news.error,
            model_lost=news.model_lost,
        )

    def _visited(self, gang: RealGang, news: msg.Visited, offset: float) -> AnyEvent:
        """The slot is free by itself."""
        trial, slot = gang.lease.trial, gang.lease.gang[0]
        del self.gangs[trial]
        rows = () if news.row is None else self._rows(trial, (news.row,), offset)
        return ev.VisitEnded(
            at_s=self.now_s,
            trial=trial,
            generation=gang.lease.generation,
            rows=rows,
            saved=tuple(row.iteration for row in rows),
            seconds=news.seconds,
            load_s=news.load_s,
            kept=news.kept,
            model_bytes=news.size,
            hopped=self.models.lodge(news.model, slot),
        )

    def _rows(self, trial: TrialId, rows: Sequence[msg.RowMessage], offset: float) -> tuple[ev.Row, ...]:
        told = tuple(
            ev.Row(iteration, min(self.now_s, self._clock.of(at + offset)), metrics)
            for iteration, at, metrics in rows
        )
        self.drawing.teach(trial, told)
        return told

    def _watch(self) -> Iterator[AnyEvent]:
        """Gangs of which nothing is heard for too long are taken for hung."""
        for gang in tuple(self.gangs.values()):
            if gang.is_hung(self.now_s):
                self._dissolve(gang)
                yield ev.TrialCrashed(
                    at_s=self.now_s,
                    trial=gang.lease.trial,
                    generation=gang.lease.generation,
                    error=f"hung: nothing was heard of it for {format_duration(gang.patience_s)}; a trial "
                    "whose iterations take longer needs `hang_after` in the job",
                )

    # Timers.

    def _ring(self) -> list[AnyEvent]:
        """The next timer that is due, after the rows that its reader wants to see; empty: none is."""
        self._tick()
        while self._alarms and self._alarms[0][0] <= self.now_s:
            at_s, _, timer = heapq.heappop(self._alarms)
            if self._timers.get(timer) != at_s:
                continue
            del self._timers[timer]
            events = self._flush() if timer in self._fresh else []
            self._tick()
            return [*events, ev.TimerFired(at_s=self.now_s, timer=timer)]
        return []

    def _flush(self) -> list[AnyEvent]:
        """Every row that there is by now."""
        number = next(self._flushes)
        self._awaited = number, self.fleet.order_all(msg.Flush(number=number))
        self.fleet.send()
        until_s = self._clock() + _FLUSH_S
        events: list[AnyEvent] = []
        while self._awaited[1] > 0 and (left_s := until_s - self._clock()) > 0:
            dispatches = list(self.fleet.receive(left_s))
            self._tick()
            events += [event for dispatch in dispatches for event in self._hear(dispatch)]
        return events


def _in_time(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """In one batch nothing happens before what is told before it."""
    told: list[AnyEvent] = []
    latest = 0.0
    for event in events:
        latest = max(latest, event.at_s)
        told.append(event if event.at_s == latest else replace(event, at_s=latest))
    return told
