"""A run on real machines, and the lease that limits how long its nodes may live without it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from elastune.checkpoints.store import Store
from elastune.core import commands as do
from elastune.core import limits as guards
from elastune.core.commands import AnyCommand
from elastune.core.core import Core
from elastune.core.events import AnyEvent, Resumed, RunExtended, RunStarted
from elastune.core.state import State
from elastune.errors import ExecutionError
from elastune.exports.saved_model import saved_model
from elastune.history.hopping import HoppingFigures, recall_hopping
from elastune.history.notes import notes_in
from elastune.history.result import Estimate, RunResult, result_of
from elastune.history.status import RunStatus, most_iterations, status_of
from elastune.job.job import Job
from elastune.journal.records import RunRecord
from elastune.journal.run_commands import argument_for, command_for
from elastune.journal.run_folders import RunFolder
from elastune.journal.writer import AnyJournal, Writer
from elastune.providers.ray_cluster import FinalCheck, RayProvider
from elastune.runs.code_bundle import CodeShipment, pack_up
from elastune.runs.control.channel import ControlFolder, Received, RequestAnswer
from elastune.runs.control.granting import admit
from elastune.runs.control.requests import RefusedRequestError, RunRequest, SuspendRun, describe
from elastune.runs.listeners import open_listeners
from elastune.runs.prepared_run import PreparedRun
from elastune.runs.retention import Retention
from elastune.runs.run_files import open_store, refuse_unshared
from elastune.runs.simulation import Beat, Driver, belief_of
from elastune.runtime.ray.fleet import ProviderNodes, RunClock
from elastune.runtime.ray.messages import WarmAddress, WorkerSpec
from elastune.runtime.ray.runtime import RayRuntime
from elastune.runtime.ray.warm_process import WarmProcess
from elastune.setup.data import open_data
from elastune.setup.remembered_boots import remember_boots
from elastune.setup.run_setup import RunSetup
from elastune.temporary_folder import TemporaryFolder
from elastune.training.shared_data import folders_after


class NodeLease:
    """How long nodes may live. The run writes it after each step; lease renewals read it in any thread."""

    def __init__(self, expected_s: float | None = None) -> None:
        """`expected_s`: when a run without a deadline may be expected to have ended."""
        self._until_s: float | None = None
        self.needed_until_s = expected_s

    def __call__(self) -> float | None:
        """By the run's clock; None: the run has not started or resumed yet."""
        return self._until_s

    def shorten(self, state: State) -> None:
        """Before commands are carried out, because more nodes may soon share the budget."""
        until_s = guards.may_live_until_s(state)
        self._until_s = until_s if self._until_s is None else min(until_s, self._until_s)

    def reckon(self, state: State) -> None:
        """After commands were carried out: released nodes cost nothing more."""
        self._until_s = guards.may_live_until_s(state)
        if state.limits.deadline_s is not None:
            self.needed_until_s = state.limits.deadline_s


# Commands without outside effects; they may be carried out before the journal is durable.
_INWARD = (do.Note, do.SetTimer, do.CancelTimer, do.Barrier, do.Sample, do.Fork)
# How long to wait after the end for nodes already requested, to release them.
_LATE_NODES_S = 30.0

Watch = Callable[[State], None]
"""Called with the run's state from time to time."""
Nudge = Callable[[], str | None]
"""Called a few times per second: the reason to suspend the run, or None."""


class RunInterrupted(KeyboardInterrupt):
    """The run was suspended: everything is saved, and all nodes are released."""

    def __init__(self, run: str, folder: RunFolder) -> None:
        super().__init__(
            f"run {run} is suspended: everything is saved in {folder.path}, and all nodes are released; "
            f"resume it with `{command_for('resume', folder, run)}` or "
            f"elastune.resume({argument_for(folder, run)!r})"
        )
        self.run = run
        self.folder = folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResources:
    """What a real run works with. The caller opens and closes the provider."""

    provider: RayProvider
    shipment: CodeShipment
    clock: RunClock
    lease: NodeLease = field(default_factory=NodeLease)
    warm: WarmAddress | None = None
    """Of the warm process, where nodes are on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedUp:
    """What start-up took, when the run's clock shows 0, and what it left of the deadline; None: the job's."""

    startup_s: float = 0.0
    deadline_s: float | None = None


class RealRun:
    def __init__(  # noqa: PLR0913  all by name
        self,
        setup: RunSetup,
        means: RunResources,
        *,
        journal: AnyJournal,
        writer: Writer,
        record: RunRecord,
        folder: RunFolder,
        core: Core | None = None,
        callbacks: Sequence[object] = (),
    ) -> None:
        """`core`: for a resumed run, at the end of the journal."""
        self.setup = setup
        self.record = record
        self.folder = folder
        self.means = means
        bundle = None
        if means.provider.is_elsewhere:
            refuse_unshared(setup.job, folder)
            bundle = pack_up(means.shipment, runs=folder.path.parent)
        self.store = open_store(setup.job, folder)
        self.store.check()
        self._shared = TemporaryFolder("elastune-shared-")
        core = core or setup.make_core(record.seed)
        self.listeners = open_listeners(
            setup.job, core.state, journal, record, folder, self.store, callbacks=callbacks
        )
        self.body = RayRuntime(
            setup.terms,
            machines=ProviderNodes(means.provider, means.clock, belief_of(core.state)),
            sampler=setup.tuning.make_sampler(record.seed),
            worker_spec=replace(
                _worker_spec(setup, means.shipment, self.store, folder),
                shared=folders_after(self._shared.path),
                bundle=bundle,
                warm=means.warm,
            ),
            seed=record.seed,
            clock=means.clock,
            hang_after_s=setup.job.hang_after,
        )
        self.journal = journal
        self.writer = writer
        self.driver = Driver(core, self.writer)
        kept = setup.job.keep_checkpoints
        self.retention = Retention(
            self.store, core.state, keeps_all=kept == "all", keeps_race=kept != "least"
        )
        self.body.drawing.remember(core.state.trials.values())
        self.control = ControlFolder(folder)
        self._is_nudged = False
        boot = self.core.state.observed_speed.boot
        self._known_boots = boot.count, boot.seconds  # of earlier drivers, which have remembered them

    @property
    def core(self) -> Core:
        return self.driver.core

    def run(self, first: AnyEvent, watch: Watch | None = None, *, nudge: Nudge = lambda: None) -> None:
        """From its first event until it ends or is suspended. Requests of other processes are taken a few
        times per second."""
        with ExitStack() as stack:
            stack.callback(self._shared.close)
            stack.callback(self._remember_boots)
            stack.callback(self.listeners.close)
            stack.callback(self.retention.close)
            stack.callback(self.writer.close)
            stack.callback(self.body.fleet.close)
            for command in self._handle([first]):
                self.body.carry_out(command)
            beat = Beat(time.monotonic)
            for received in self.control.take_left_over():
                self._answer(received)
            while not self.body.is_idle and not self._is_over():
                self.body.step(self._handle)
                self.means.lease.reckon(self.core.state)
                if not beat.is_due(0):
                    continue
                self.writer.commit()
                self.retention.sweep()
                self.body.models.forget_others({trial.number for trial in self.core.state.living()})
                self.listeners.flush()
                self._take_requests(nudge)
                if watch is not None:
                    watch(self.core.state)
            self.writer.commit()
            if watch is not None:  # what it shows last is how the run ended
                watch(self.core.state)
            self.retention.tidy()
        if self.body.failure is not None:
            raise ExecutionError(self.body.failure)
        if self.body.hindrance is not None and self.core.state.ended is None:
            run = self.record.run
            raise ExecutionError(
                f"{self.body.hindrance}\nrun {run} is suspended: everything is saved in {self.folder.path}, "
                "and all nodes are released; fix the cause and resume it with "
                f"`{command_for('resume', self.folder, run)}`"
            )

    def _remember_boots(self) -> None:
        boot, (count, seconds) = self.core.state.observed_speed.boot, self._known_boots
        remember_boots(self.setup.job.cluster, boot.count - count, boot.seconds - seconds)

    def _take_requests(self, nudge: Nudge) -> None:
        if not self._is_nudged and (reason := nudge()) is not None:
            self._is_nudged = True
            self.grant(SuspendRun(reason=reason))
        for received in self.control.take():
            self._answer(received)

    def _answer(self, received: Received) -> None:
        request = received.request
        if isinstance(request, RefusedRequestError):
            answer = RequestAnswer(accepted=False, text=str(request))
        else:
            answer = self.grant(request, received.id)
        self.control.answer(received.id, answer)

    def grant(self, request: RunRequest, request_id: str = "") -> RequestAnswer:
        """Apply a request, unless the run cannot do it or has done it already."""
        at_s = self.body.tick()
        event = admit(request, self.core, self.setup, request_id=request_id, at_s=at_s)
        if isinstance(event, RequestAnswer):
            return event
        commands = self._handle([event])
        self.writer.commit()  # from here on the journal knows the request
        for command in commands:
            self.body.carry_out(command)
        return RequestAnswer(accepted=True, text=describe(event, self.core.state.startup_s))

    def result(self, predicted: Estimate) -> RunResult:
        state = self.core.state
        if state.ended is None and state.suspended:
            raise RunInterrupted(self.record.run, self.folder)
        result = result_of(
            state,
            policy=self.setup.policy,
            planner=None if self.setup.quote is None else self.setup.quote.planner,
            seed=self.record.seed,
            run=self.record.run,
            predicted=predicted,
            journal_sha256=self.writer.sha256,
            most_iterations=most_iterations(self.setup),
        )
        best = result.best
        if best is not None:
            path = self.store.path(best.trial, best.iterations)
            best = saved_model(best, path, trusted=self.setup.job.pickles)
        return replace(result, best=best, hopping=self._hopping())

    def _hopping(self) -> HoppingFigures | None:
        return recall_hopping(self.journal.read(self.record.run), self.setup.terms)

    def standing(self, predicted: Estimate) -> RunStatus:
        entries = self.journal.read(self.record.run)
        return status_of(
            self.setup,
            self.core.state,
            seed=self.record.seed,
            predicted=predicted,
            remarks=[*(note for entry in entries for note in notes_in(entry)), *self.listeners.remarks()],
            hopping=self._hopping(),
        )

    def beginning(self, began: StartedUp = StartedUp()) -> RunStarted:  # noqa: B008  it is frozen
        return RunStarted(
            at_s=0.0,
            policy=self.setup.policy,
            seed=self.record.seed,
            job=self.setup.job.to_dict(),
            startup_s=began.startup_s,
            deadline_s=began.deadline_s,
        )

    def extend(self, event: RunExtended) -> None:
        """Before the first event of a run that goes on with other limits. The commands are not carried out:
        `coming_back` repeats what they left open."""
        self._handle([event])
        self.writer.commit()

    def coming_back(
        self, down_s: float, *, deadline_s: float | None = None, budget_usd: float | None = None
    ) -> Resumed:
        """The first event of a resumed run. Nodes held when the driver went down are released, because their
        agents died with it. They are billed for the time in the journal and for the time they outlived it."""
        state, provider = self.core.state, self.means.provider
        ages = {node.number: max(0.0, state.now_s - node.born_s) for node in state.where.values()}
        held = tuple((node, age_s + provider.outlived_s(node, age_s, down_s)) for node, age_s in ages.items())
        self.body.machines.release(ages)
        return Resumed(
            at_s=state.now_s, down_s=down_s, lost=held, deadline_s=deadline_s, budget_usd=budget_usd
        )

    def _handle(self, events: Sequence[AnyEvent]) -> Sequence[AnyCommand]:
        """Events of one step are journalled together, before their commands are carried out."""
        commands: list[AnyCommand] = []
        for event in events:
            caused = self.driver(event)
            commands += caused
            self.retention.take(event)
            self.listeners.take(event, caused)
        self.means.lease.shorten(self.core.state)
        if not all(isinstance(command, _INWARD) for command in commands):
            self.writer.commit()
        return commands

    def _is_over(self) -> bool:
        ended_s = self.core.state.ended_s
        return ended_s is not None and self.body.now_s > ended_s + _LATE_NODES_S


def open_warm_process(setup: RunSetup, shipment: CodeShipment) -> WarmProcess | None:
    """For nodes on this machine. It imports what their slots need; None: each node does so by itself."""
    try:
        return WarmProcess(shipment.paths, _preload(setup, shipment), _threads(setup.job))
    except OSError:
        return None


def _threads(job: Job) -> int:
    return job.slot.cpus or 1


def _worker_spec(setup: RunSetup, shipment: CodeShipment, store: Store, folder: RunFolder) -> WorkerSpec:
    job = setup.job
    return WorkerSpec(
        script=shipment.script,
        store=store,
        checkpoints=setup.terms.checkpoint_rule(job.checkpoint_every),
        pickles=job.pickles,
        threads=_threads(job),
        logs=str(folder.logs.absolute()),
        gpus_per_slot=job.slot.gpus or 0,
        preload=_preload(setup, shipment),
        paths=shipment.paths,
        **_data(job, folder, shipment),
    )


def _data(job: Job, folder: RunFolder, shipment: CodeShipment) -> dict[str, Any]:
    section = job.data
    if section is None:
        return {}
    return {
        "dataset": open_data(job, folder.path.absolute(), shipment.recipe),
        "data_bytes": None if section.memory is None else int(section.memory * 1e9),
        "spill": tempfile.gettempdir() if section.spill is True else section.spill,
    }


def _preload(setup: RunSetup, shipment: CodeShipment) -> tuple[str, ...]:
    """Gangs of several workers communicate through torch, even if their code does not use it."""
    if "torch" in shipment.preload or shipment.most_slots == 1:
        return shipment.preload
    if setup.quote is not None:
        stages = (stage for bracket in setup.quote.brackets for stage in bracket.stages)
        gangs = any(stage.slots_per_trial > 1 for stage in stages)
    else:
        gangs = setup.terms.gangs.max_slots != 1
    return (*shipment.preload, "torch") if gangs else shipment.preload


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    result: RunResult
    standing: RunStatus
    prepared: PreparedRun
    folder: RunFolder
    record: RunRecord
    final_check: FinalCheck | None = None  # None: not done

    def to_dict(self) -> dict[str, object]:
        final_check = None if self.final_check is None else asdict(self.final_check)
        return {**self.result.to_dict(), "farewell": final_check}
