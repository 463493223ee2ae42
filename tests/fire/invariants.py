"""What must hold after every event, whatever happened.

Kept apart from the code it checks: it counts iterations, slots and money by itself.
"""

from __future__ import annotations

import math
from collections import Counter

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.state import State
from elastune.model.cluster import Billing
from elastune.model.continuing import Continuing
from elastune.model.limits import Limit
from elastune.runs.simulation import Simulation

CLOSE = 1e-6


class Witness:
    """Sees every event and every command of one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.iterations: Counter[int] = Counter()
        self.saved: Counter[int] = Counter()
        self.formed: dict[int, tuple[int, int, float]] = {}
        """Gangs by trial: generation, slots, since when."""
        self.places: dict[int, set[str]] = {}
        self.forks: dict[int, tuple[int, int]] = {}
        """What was asked for: the parent and the iteration of its checkpoint."""
        self.slot_s = 0.0
        self.grants = 0

    # What was told.

    def hear(self, event: AnyEvent, commands: tuple[AnyCommand, ...]) -> None:
        match event:
            case ev.Progressed():
                self._count(event)
            case ev.TrialPaused() if self._is_present(event):
                self.saved[event.trial] = self.iterations[event.trial]
                if not event.stays:
                    self._dissolve(event.trial, event.at_s)
            case ev.TrialsSampled():
                for trial, _ in event.trials:
                    if trial in self.forks:
                        self.iterations[trial] = self.saved[trial] = self.forks[trial][1]
            case ev.NodesGranted():
                self.grants += len(event.nodes)
            case ev.NodeLost():
                self._dissolve_all([t for t in self.formed if event.node in self.places[t]], event.at_s)
            case ev.Resumed():
                self._dissolve_all(list(self.formed), event.at_s)
        self._obey(commands, event.at_s)

    def _obey(self, commands: tuple[AnyCommand, ...], at_s: float) -> None:
        for command in commands:
            match command:
                case do.Train():
                    self._form(command, at_s)
                case do.Fork():
                    assert 0 < command.iteration <= self.saved[command.parent], "no checkpoint to fork from"
                    self.forks[command.trial] = command.parent, command.iteration
                case do.Stop(trial=trial):
                    self._dissolve(trial, at_s)

    def _dissolve_all(self, trials: list[int], at_s: float) -> None:
        for trial in trials:
            self._dissolve(trial, at_s)

    def _is_present(self, event: ev.Progressed | ev.TrialPaused | ev.GangStarted) -> bool:
        held = self.formed.get(event.trial)
        return held is not None and held[0] == event.generation

    def _count(self, event: ev.Progressed) -> None:
        if not self._is_present(event):
            return
        for row in event.rows:
            value = row.metrics.get("score")
            if value is None or not math.isfinite(value):
                break
            self._count_row(event.trial, row.iteration)
        for iteration in event.saved:
            if iteration <= self.iterations[event.trial]:
                self.saved[event.trial] = max(self.saved[event.trial], iteration)
        if isinstance(event, ev.TrialCrashed | ev.GangLost | ev.VisitEnded):
            self._dissolve(event.trial, event.at_s)

    def _count_row(self, trial: int, iteration: int) -> None:
        if self.simulation.core.state.terms.continuing is Continuing.CALLING:
            assert iteration > self.iterations[trial], "an iteration was counted twice"
            self.iterations[trial] = iteration
            return
        self.iterations[trial] += 1
        assert iteration == self.iterations[trial], "an iteration was skipped or counted twice"

    def _form(self, train: do.Train, at_s: float) -> None:
        held = self.formed.get(train.trial)
        if held is None:
            self.formed[train.trial] = (train.generation, len(train.gang), at_s)
            self.places[train.trial] = {slot.node for slot in train.gang}
            assert train.after_iteration == self.saved[train.trial], "a gang starts from what was not saved"
            parent, iteration = self.forks.get(train.trial, (None, None))
            loads_parent = parent if train.after_iteration == iteration else None
            assert train.origin == loads_parent, "a fork loads its parent's checkpoint, until it has its own"
        else:
            assert held[:2] == (train.generation, len(train.gang)), "a gang changed without being dissolved"

    def _dissolve(self, trial: int, at_s: float) -> None:
        held = self.formed.pop(trial, None)
        if held is not None:
            self.slot_s += held[1] * (at_s - held[2])
            self.iterations[trial] = self.saved[trial]

    # What must hold.

    def check(self) -> None:
        state = self.simulation.core.state
        self._check_slots(state)
        self._check_iterations(state)
        self._check_money(state)
        self._check_nodes(state)
        self._check_target(state)
        if state.ended is not None:
            self._check_end(state)

    def _check_slots(self, state: State) -> None:
        size = state.terms.cluster.slots_per_node
        used: Counter[tuple[str, int]] = Counter()
        for number in state.held:
            gang = state.trials[number].gang
            nodes = {slot.node for slot in gang}
            assert len(nodes) == -(-len(gang) // size), f"trial {number} is scattered: {gang}"
            for slot in gang:
                used[slot] += 1
                assert state.where[slot.node].ready_s is not None, f"{slot} is used before its node is up"
        assert all(times == 1 for times in used.values()), f"slots are used twice: {used}"
        gangs, visits = self.simulation.body.gangs, self.simulation.body.visits
        leases = [*(gang.lease for gang in gangs.values()), *(visit.lease for visit in visits.values())]
        body = {lease.trial: lease.generation for lease in leases}
        core = {n: state.trials[n].generation for n in state.held}
        assert body == core, f"the body runs {body}, the core believes {core}"

    def _check_iterations(self, state: State) -> None:
        for number, trial in state.trials.items():
            assert trial.iteration == self.iterations[number], f"trial {number}: {trial.iteration} iterations"
            assert trial.saved == self.saved[number], f"trial {number} saved {trial.saved}"
            assert trial.saved <= trial.iteration
            if not trial.gang:
                assert trial.iteration == trial.saved, f"trial {number} keeps what was lost"
        if state.best is not None:
            assert math.isfinite(state.best.metric)
            assert state.best.iteration <= max(self.saved[state.best.trial], 1)

    def _check_money(self, state: State) -> None:
        ledger, body = state.ledger, self.simulation.body
        accrued = ledger.accrued_usd(state.now_s)
        cloud_s = body.now_s + body.cloud.down_s
        if body.next_s is not None and body.next_s <= body.now_s + CLOSE:
            return  # the driver may not have been told yet what the cloud knows
        terms = state.terms.cluster
        if terms.billing is Billing.INSTANCE:
            bill = body.cloud.provider.bill_usd(cloud_s)
        else:
            running = sum(slots * (state.now_s - since) for _, slots, since in self.formed.values())
            bill = (self.slot_s + running) * terms.slot_usd_per_s + self.grants * terms.data_usd_per_node
        assert math.isclose(accrued, bill, rel_tol=CLOSE, abs_tol=CLOSE), f"ledger {accrued}, bill {bill}"
        cap = state.terms.cluster.most_usd_per_hour
        if cap is not None:
            rate = state.ledger.burn_usd_per_s * 3600
            assert rate <= cap * (1 + CLOSE), f"${rate} per hour, at most ${cap}"
        budget = state.terms.limits.budget_usd
        if budget is not None and not body.cloud.down_s and Limit.BUDGET not in state.conceded:
            assert accrued <= budget * (1 + CLOSE), f"{accrued} spent of {budget}"

    def _check_nodes(self, state: State) -> None:
        most = state.terms.cluster.max_nodes
        assert state.nodes_committed <= most, f"{state.nodes_committed} nodes of {most}"
        assert len(self.simulation.body.cloud.provider.live()) <= most

    def _check_target(self, state: State) -> None:
        target, best = state.terms.target, state.best
        reached = target is not None and best is not None and target.is_reached_by(best.metric)
        assert not reached or state.shutdown is not None, f"the run goes on though {best} is enough: {target}"
        assert reached or state.shutdown is not do.Ending.TARGET, f"{best} does not reach {target}"

    def _check_end(self, state: State) -> None:
        deadline = state.terms.limits.deadline_s
        assert state.ended_s is not None
        if deadline is not None and Limit.DEADLINE not in state.conceded:
            assert state.ended_s <= deadline * (1 + CLOSE), f"ended at {state.ended_s}, deadline {deadline}"
        assert not state.held
        assert all(trial.phase.is_over for trial in state.trials.values())

    def check_over(self) -> None:
        """Nothing is left to happen."""
        state = self.simulation.core.state
        assert state.ended is not None
        assert self.simulation.body.cloud.provider.live() == (), "a node is alive after the end"
        ledger = state.ledger
        total = ledger.accrued_usd(state.now_s)
        stages = math.fsum(stage.usd for stage in ledger.stages)
        assert math.isclose(stages, total, rel_tol=CLOSE, abs_tol=CLOSE), f"stages {stages}, in all {total}"
        if state.terms.cluster.billing is Billing.INSTANCE:
            nodes = math.fsum(node.usd for node in ledger.nodes.values())
            assert math.isclose(nodes, total, rel_tol=CLOSE, abs_tol=CLOSE), f"nodes {nodes}, in all {total}"
        used = math.fsum(use.busy_s for use in ledger.trials.values())
        by_stage = math.fsum(stage.use.busy_s for stage in ledger.stages)
        by_node = math.fsum(node.use.busy_s for node in ledger.nodes.values())
        assert math.isclose(used, by_stage, rel_tol=CLOSE, abs_tol=CLOSE), (
            f"{used} by trial, {by_stage} by stage"
        )
        assert math.isclose(used, by_node, rel_tol=CLOSE, abs_tol=CLOSE), (
            f"{used} by trial, {by_node} by node"
        )
