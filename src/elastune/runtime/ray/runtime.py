"""The Ray runtime: carries out the core's commands in real processes.

One loop on the driver waits for messages from the agents, for timers and for the provider, passes all that
arrived together to the core as one batch, and carries out the commands that the core returns. Everything
slow happens in other threads and processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.terms import RunTerms
from elastune.model.continuing import Continuing
from elastune.model.ids import NodeId, Slot, TrialId
from elastune.runtime.ray import messages as msg
from elastune.runtime.ray.fleet import Dispatch, NodeFleet, ProviderNodes, RealGang, RunClock, RunTimers
from elastune.runtime.ray.model_transfer import ModelPlaces, ModelSaver
from elastune.runtime.ray.node_connections import SlotShare
from elastune.runtime.sampling import Sampling
from elastune.space.sampler import Sampler
from elastune.training.worker import trial_seed
from elastune.wording import format_duration

Brain = Callable[[Sequence[AnyEvent]], Sequence[AnyCommand]]
"""Takes the events since the last call, in order, and returns the commands to carry out."""

# The loop wakes up at least this often, for Ctrl-C and for requests to stop the run.
_BEAT_S = 0.2
_STANDSTILL_S = 2.0
_FLUSH_S = 1.0
# After its save, a gang has this long to clean up; one that trains is broken off.
_CLEAN_UP_S = 5.0
_BREAK_OFF_S = 0.25
# After so many nodes in a row on which no worker starts, the run gives up.
_MOST_DUDS = 3
_LEAST_PATIENCE_S = 300.0
_PATIENCE_ITERATIONS = 20.0


class RayRuntime:
    """`hang_after_s`: a gang that is silent for longer is taken for hung; None: derived from the profile."""

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
        """Why no trial can be trained at all."""
        self.hindrance: str | None = None
        """What the user has to fix before the run can be resumed."""
        self.machines = machines
        cpus, gpus = machines.provider.resources()
        self.fleet = NodeFleet(SlotShare(terms.cluster.slots_per_node, cpus, gpus))
        self.gangs: dict[TrialId, RealGang] = {}
        self.models = ModelPlaces()
        self.drawing = Sampling(sampler, terms.metric)
        self._terms = terms
        self._sealed = worker_spec.seal()
        self._model_saver = ModelSaver(worker_spec.store, pickles=worker_spec.pickles)
        self._seed = seed
        self._clock = clock
        self._hang_after_s = hang_after_s
        self._ready_slots: dict[NodeId, set[int]] = {}
        self._duds = 0
        self._formed: dict[TrialId, int] = {}
        """The last generation of each trial's gang that was formed."""
        self._pending: list[AnyEvent] = []
        self._timers = RunTimers()
        self._flushes = itertools.count(1)
        self._unflushed: tuple[int, int] = (0, 0)
        """The number of the last flush, and how many nodes have not answered it."""

    @property
    def is_idle(self) -> bool:
        """The run has ended, all nodes are released and no request to the provider is open."""
        return self.ended and not self._ready_slots and not self.machines.is_waiting

    def tick(self) -> float:
        """The present time, also for what is carried out next."""
        self._tick()
        return self.now_s

    def step(self, brain: Brain) -> None:
        dispatches = list(self.fleet.receive(self._timeout_s()))
        self._tick()
        events = [event for dispatch in dispatches for event in self._receive(dispatch)]
        events += self._look()
        events += self._find_hung()
        events += self._model_saver.done(self.now_s)
        self._decide(brain, events)
        for events in iter(self._ring, []):
            self._decide(brain, events)
        self._drop_models()
        self.fleet.send()

    def _drop_models(self) -> None:
        for place in self.models.dropped():
            if isinstance(place.model.data, msg.HeldModel):
                self.fleet.order(place.slot, msg.DropModel(key=place.model.data.key))

    def _decide(self, brain: Brain, events: list[AnyEvent]) -> None:
        """Answers that need no other process (configurations, barriers) follow in the same step."""
        while events or self._pending:
            batch = _in_time([*events, *self._pending])
            events, self._pending = [], []
            self.now_s = max(self.now_s, batch[-1].at_s)
            for command in brain(batch):
                self.carry_out(command)

    def _tick(self) -> None:
        now_s = self._clock()
        stood_s = now_s - self.now_s
        if stood_s > _STANDSTILL_S:  # this process was stopped or busy, and received nothing
            for gang in self.gangs.values():
                gang.heard_s += stood_s
        self.now_s = max(self.now_s, now_s)

    def _timeout_s(self) -> float:
        if self._pending:
            return 0.0
        waits = [_BEAT_S, self.machines.due_s()]
        if (timer_s := self._timers.next_s()) is not None:
            waits.append(timer_s - self._clock())
        return max(0.0, min(waits))

    def _event(self, kind: Callable[..., AnyEvent], lease: do.Train, **facts: Any) -> AnyEvent:
        """An event about the gang of this lease, now."""
        return kind(at_s=self.now_s, trial=lease.trial, generation=lease.generation, **facts)

    # Commands.

    def carry_out(self, command: AnyCommand) -> None:  # noqa: C901, PLR0912  one case per command
        match command:
            case do.Train():
                self._train(command)
            case do.Revoke(trial=trial, generation=generation):
                if (gang := self._gang(trial, generation)) is not None:
                    self._order_leader(gang, msg.Halt(gang=gang.id))
            case do.Pause(trial=trial, generation=generation, stay=stay):
                if (gang := self._gang(trial, generation)) is not None:
                    self._order_leader(gang, msg.Keep(gang=gang.id, stay=stay))
                    gang.busy, gang.heard_s = True, self.now_s
            case do.Stop(trial=trial, generation=generation):
                if (gang := self._gang(trial, generation)) is not None:
                    self._dissolve(gang, _BREAK_OFF_S if gang.busy else _CLEAN_UP_S)
            case do.Stow():
                self._model_saver.save(command, self.models.newest(command.trial))
            case do.Sample(trials=trials, given=given):
                self._pending.append(self.drawing.sample(trials, self.now_s, given))
            case do.Fork(trial=trial, parent=parent):
                self._pending.append(self.drawing.fork(trial, parent, self.now_s))
            case do.RequestNodes(request=request, count=count):
                self.machines.request(request, count)
            case do.ReleaseNodes(nodes=nodes):
                for node in nodes:
                    self._disconnect(node)
                self.machines.release(nodes)
            case do.LimitNodes(most=most):
                self.machines.provider.limit_nodes(most)
            case do.SetTimer(timer=timer, at_s=at_s, fresh=fresh):
                self._timers.set(timer, at_s, fresh=fresh)
            case do.CancelTimer(timer=timer):
                self._timers.cancel(timer)
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
            gang.be_patient(self._patience_s(lease))
            terms = self._terms_of(lease, lease.gang[0].node)
            self._order_leader(gang, msg.Extend(gang=gang.id, terms=terms))
            return
        if lease.generation <= self._formed.get(lease.trial, 0) or any(
            slot.node not in self.fleet for slot in lease.gang
        ):
            return  # it broke in the same step, and the core has the event
        self._formed[lease.trial] = lease.generation
        gang = RealGang(lease, self.now_s, self._patience_s(lease))
        self.gangs[lease.trial] = gang
        form = self._form(gang, self._expected_s(lease))
        if lease.visit is not None:
            self._send_on_visit(gang, lease.visit, form)
            return
        self.models.forget(lease.trial)
        shares = lease.shares or ((),) * len(lease.gang)
        for rank, slot in enumerate(lease.gang):
            self.fleet.order(slot, replace(form, rank=rank, share=shares[rank]))

    def _form(self, gang: RealGang, expected_s: float) -> msg.Form:
        lease = gang.lease
        return msg.Form(
            gang=gang.id,
            rank=0,
            size=len(lease.gang),
            config=self.drawing.configs[lease.trial],
            seed=trial_seed(self._seed, lease.trial),
            after_iteration=lease.after_iteration,
            origin=lease.trial if lease.origin is None else lease.origin,
            expected_s=expected_s,
            terms=self._terms_of(lease, lease.gang[0].node),
        )

    def _send_on_visit(self, gang: RealGang, visit: do.Visit, form: msg.Form) -> None:
        """Also prefetch the model that visits this slot next."""
        lease = gang.lease
        (slot,), (share,) = lease.gang, lease.shares
        found = self.models.find(lease)
        if found is not None and not isinstance(found.model.data, bytes) and found.slot.node != slot.node:
            gang.awaits = found.slot.node
        model = None if found is None else found.model
        self.fleet.order(slot, replace(form, share=share, visit=msg.VisitOrder(*visit), model=model))
        if lease.then is not None:
            following = self.models.newest(lease.then, elsewhere_than=slot)
            if following is not None:
                self.fleet.order(slot, msg.Prefetch(model=following))

    def _terms_of(self, lease: do.Train, node: NodeId) -> msg.GangTerms:
        until = None
        if lease.until_s is not None:
            until = self._clock.monotonic(lease.until_s) + self.fleet.clock_of(node)
        return msg.GangTerms(until_iteration=lease.until_iteration, until=until, keep_above=lease.keep_above)

    def _expected_s(self, lease: do.Train) -> float:
        """Of one iteration."""
        profile = self._terms.profile
        return profile.iteration.mean / profile.speedup.at(len(lease.gang))

    def _patience_s(self, lease: do.Train) -> float:
        """For an iteration and a save, since either may be under way; for all iterations of a call."""
        given, calls = self._hang_after_s, self._terms.continuing is Continuing.CALLING
        expected_s = self._expected_s(lease) * (lease.until_iteration if calls else 1)
        usual = max(_LEAST_PATIENCE_S, _PATIENCE_ITERATIONS * expected_s) if given is None else given
        return usual + 2 * self._terms.save_allowance_s

    def _order_leader(self, gang: RealGang, order: msg.GangOrder) -> None:
        self.fleet.order(gang.lease.gang[0], order)

    def _dissolve(self, gang: RealGang, grace_s: float = _BREAK_OFF_S) -> None:
        self.gangs.pop(gang.lease.trial, None)
        for slot in gang.lease.gang:
            self.fleet.order(slot, msg.Dissolve(gang=gang.id, grace_s=grace_s))

    def _disconnect(self, node: NodeId) -> None:
        self._ready_slots.pop(node, None)
        self.models.forget_node(node)
        self.fleet.stop(node)

    # Nodes.

    def _look(self) -> Iterator[AnyEvent]:
        broken = self.machines.provider.broken
        if broken is not None:
            yield from self._suspend_for(broken)
        for event in self.machines.look():
            if isinstance(event, ev.NodeLost):
                yield from self._lose(event)
            else:
                yield event
        for node in self.machines.came_up():
            ray_node = self.machines.provider.ray_node(node)
            if ray_node is not None and not self.ended:
                self._ready_slots[node] = set()
                self.fleet.start(node, ray_node, self._sealed)

    def _lose(self, event: ev.NodeLost) -> Iterator[AnyEvent]:
        """Dissolve the gangs with a part on this node, and the visits whose model was to come from there:
        Ray would search for the model for many seconds."""
        node = event.node
        self._disconnect(node)
        for gang in tuple(self.gangs.values()):
            if any(slot.node == node for slot in gang.lease.gang):
                self._dissolve(gang)
        yield event
        for gang in tuple(self.gangs.values()):
            if gang.awaits == node:
                self._dissolve(gang)
                error = f"its model was lost with {node}"
                yield self._event(ev.GangLost, gang.lease, error=error, model_lost=True)

    def _break(self, node: NodeId, error: str) -> Iterator[AnyEvent]:
        """Release a node whose agent does not answer, although its machine may be up."""
        ready = self._ready_slots.get(node)
        if ready is None:
            return
        self._duds += len(ready) < self._terms.cluster.slots_per_node
        yield from self._lose(ev.NodeLost(at_s=self.now_s, node=node))
        self.machines.release([node])
        if self._duds >= _MOST_DUDS:
            yield from self._give_up(f"nodes come up, but no worker starts there: {error}")

    def _slot_ready(self, node: NodeId, slot: int) -> Iterator[AnyEvent]:
        ready = self._ready_slots.get(node)
        if ready is None or len(ready) == self._terms.cluster.slots_per_node:
            return
        ready.add(slot)
        if len(ready) == self._terms.cluster.slots_per_node:
            self._duds = 0
            needs_hosts = self._terms.data is not None and self._terms.data.hosts
            hosts = (self.machines.host_names(node),) if needs_hosts else ()
            yield ev.NodesReady(at_s=self.now_s, nodes=(node,), hosts=hosts)

    def _unfit(self, node: NodeId, error: str) -> Iterator[AnyEvent]:
        """If workers have started on another node, this node is at fault; if not, no trial can train."""
        if any(len(ready) == self._terms.cluster.slots_per_node for ready in self._ready_slots.values()):
            yield from self._break(node, error)
        else:
            yield from self._give_up(f"the workers cannot start:\n{error}")

    def _suspend_for(self, reason: str) -> Iterator[AnyEvent]:
        """The user has to fix something; then the run can be resumed."""
        if self.hindrance is None and not self.ended:
            self.hindrance = reason
            yield ev.RestAsked(at_s=self.now_s, reason=reason)

    def _give_up(self, failure: str) -> Iterator[AnyEvent]:
        """No trial can be trained any more: what is saved is kept, and the run ends."""
        if self.failure is None and not self.ended:
            self.failure = failure
            yield ev.StopAsked(at_s=self.now_s, reason=failure)

    # Gangs.

    def _receive(self, dispatch: Dispatch) -> Iterator[AnyEvent]:  # noqa: C901  one case per message
        node, offset, news, error = dispatch
        match news:
            case None:
                yield from self._break(node, error)
            case msg.AgentFailed(error=error):
                yield from self._break(node, error)
            case msg.SlotReady(slot=slot):
                yield from self._slot_ready(node, slot)
            case msg.SlotUnfit(error=error):
                yield from self._unfit(node, error)
            case msg.Flushed(number=number):
                if number == self._unflushed[0]:
                    self._unflushed = number, self._unflushed[1] - 1
            case msg.SlotIdle():
                pass
            case msg.Unreadable(error=error):
                yield from self._suspend_for(error)
            case _:
                gang = self._gang(*news.gang)
                if gang is not None:
                    gang.heard_s = self.now_s
                    yield from self._receive_of_gang(gang, news, offset)
                elif isinstance(news, msg.Visited):  # it was dissolved meanwhile, and no visit continues it
                    self.models.discard(news.model, Slot(node, 0))

    def _receive_of_gang(  # noqa: C901  one case per message
        self, gang: RealGang, news: msg.GangNews, offset: float
    ) -> Iterator[AnyEvent]:
        lease = gang.lease
        match news:
            case msg.Listening(meeting=meeting):
                for slot in lease.gang[1:]:
                    self.fleet.order(slot, msg.Join(gang=gang.id, meeting=meeting))
            case msg.Repeating():
                pass
            case msg.GangBegan(repeated=repeated, changed=changed):
                gang.started()
                if lease.visit is None:
                    yield self._event(ev.GangStarted, lease, repeated=repeated, changed=changed)
            case msg.Visited():
                yield self._visited(gang, news, offset)
            case msg.Trained(saved=saved, reason=reason):
                rows = self._rows(lease.trial, news.rows, offset)
                if reason is None:
                    yield self._event(ev.Progressed, lease, rows=rows, saved=saved)
                else:
                    gang.busy = False
                    end = ev.LeaseEnd(reason)
                    yield self._event(ev.LeaseEnded, lease, rows=rows, saved=saved, reason=end)
            case msg.Kept(stays=stays):
                gang.busy = False
                if not stays:
                    self._dissolve(gang, _CLEAN_UP_S)
                yield self._event(ev.TrialPaused, lease, stays=stays)
            case msg.Broken():
                self._dissolve(gang)
                yield self._broken(lease, news, offset)

    def _broken(self, lease: do.Train, news: msg.Broken, offset: float) -> AnyEvent:
        rows = self._rows(lease.trial, news.rows, offset)
        facts: dict[str, Any] = {"rows": rows, "saved": news.saved, "error": news.error}
        if news.fault:
            return self._event(ev.TrialCrashed, lease, **facts)
        if news.model_lost:
            self.models.forget(lease.trial)
        return self._event(ev.GangLost, lease, **facts, model_lost=news.model_lost)

    def _visited(self, gang: RealGang, news: msg.Visited, offset: float) -> AnyEvent:
        """No order is needed to free the slot."""
        trial, slot, model = gang.lease.trial, gang.lease.gang[0], news.model
        del self.gangs[trial]
        rows = () if news.row is None else self._rows(trial, (news.row,), offset)
        return self._event(
            ev.VisitEnded,
            gang.lease,
            rows=rows,
            saved=tuple(row.iteration for row in rows),
            seconds=news.seconds,
            load_s=news.load_s,
            kept=news.kept,
            model_bytes=news.size,
            hopped=self.models.record(model, slot),
            left_out=news.left_out,
            unused=news.unused,
        )

    def _rows(self, trial: TrialId, rows: Sequence[msg.RowMessage], offset: float) -> tuple[ev.Row, ...]:
        reported = tuple(
            ev.Row(iteration, min(self.now_s, self._clock.of(at + offset)), metrics)
            for iteration, at, metrics in rows
        )
        self.drawing.teach(trial, reported)
        return reported

    def _find_hung(self) -> Iterator[AnyEvent]:
        for gang in tuple(self.gangs.values()):
            if gang.is_hung(self.now_s):
                self._dissolve(gang)
                silent = f"hung: no message for {format_duration(gang.patience_s)}"
                advice = "if its iterations take longer, set `hang_after` in the job"
                yield self._event(ev.TrialCrashed, gang.lease, error=f"{silent}; {advice}")

    # Timers.

    def _ring(self) -> list[AnyEvent]:
        """The next timer that is due, after the rows that its reader needs; empty: none is due."""
        self._tick()
        due = self._timers.take(self.now_s)
        if due is None:
            return []
        timer, fresh = due
        events = self._flush() if fresh else []
        self._tick()
        return [*events, ev.TimerFired(at_s=self.now_s, timer=timer)]

    def _flush(self) -> list[AnyEvent]:
        number = next(self._flushes)
        self._unflushed = number, self.fleet.order_all(msg.Flush(number=number))
        self.fleet.send()
        until_s = self._clock() + _FLUSH_S
        events: list[AnyEvent] = []
        while self._unflushed[1] > 0 and (left_s := until_s - self._clock()) > 0:
            dispatches = list(self.fleet.receive(left_s))
            self._tick()
            events += [event for dispatch in dispatches for event in self._receive(dispatch)]
        return events


def _in_time(events: Sequence[AnyEvent]) -> list[AnyEvent]:
    """In one batch, times never go back."""
    ordered: list[AnyEvent] = []
    latest = 0.0
    for event in events:
        latest = max(latest, event.at_s)
        ordered.append(event if event.at_s == latest else replace(event, at_s=latest))
    return ordered
