"""Executes a prepared run, new or resumed: opens its provider, drives it, and records how it ended."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from elastune.api.results import tuned_run
from elastune.api.simulating import RUNS_FOLDER, new_id, now_utc
from elastune.api.start_up import StartUp
from elastune.checks.checking import is_here
from elastune.core.events import AnyEvent, RunExtended
from elastune.core.state import State
from elastune.errors import ElastuneError, ExecutionError, JobError
from elastune.history.result import Estimate, RunResult
from elastune.journal.records import RunRecord, RuntimeKind
from elastune.journal.run_commands import command_for
from elastune.journal.run_folders import FoundRun, RunFolder
from elastune.journal.run_index import add_to_index
from elastune.journal.store import Journal
from elastune.model.quantities import ExpectedError, positive_duration, positive_money
from elastune.providers.protocol import ProviderSetting
from elastune.providers.ray_cluster import RayProvider, RayProviderBase, is_for_ray
from elastune.providers.registry import known_providers, load_provider
from elastune.runs.callbacks import open_callbacks
from elastune.runs.control.channel import ControlFolder
from elastune.runs.prepared_run import PreparedRun
from elastune.runs.real import (
    FinishedRun,
    NodeLease,
    Nudge,
    RealRun,
    RunResources,
    StartedUp,
    Watch,
    open_warm_process,
)
from elastune.runs.resuming import Continuation
from elastune.runs.run_files import (
    read_final_check,
    write_boot_log,
    write_final_check,
    write_prepared,
    write_real_result,
)
from elastune.runtime.ray.fleet import RunClock
from elastune.runtime.ray.messages import WarmAddress
from elastune.views.live.spectator import Opening, announcer_of, introduce, waiting
from elastune.wording import format_duration, format_usd

# A run without a deadline is not expected to take longer than this many times what was predicted.
_MOST_LATE = 3.0


def carry_out_run(
    prepared: PreparedRun,
    *,
    folder: str | Path = RUNS_FOLDER,
    watch: Watch | None = None,
    nudge: Nudge = lambda: None,
    callbacks: Sequence[object] = (),
    start_up: StartUp | None = None,
) -> FinishedRun:
    """Execute a prepared run. Raises `RunInterrupted` if `nudge` suspended it. `callbacks`: more than the
    job's. `start_up`: what the command took before, and counts."""
    setup, run = prepared.setup, new_id()
    called = open_callbacks((*setup.job.callbacks, *callbacks))
    kept = RunFolder.create(Path(folder), name=setup.job.name, now_utc=now_utc(), run=run)
    write_prepared(kept, setup.job, prepared.quote, setup.policy, prepared.predicted)
    add_to_index(kept.path)
    record = RunRecord(
        run=run,
        name=setup.job.name,
        created_utc=now_utc(),
        body=RuntimeKind.RAY,
        policy=setup.policy,
        seed=prepared.seed,
    )
    clock, lease = RunClock.starting_at(), _lease_of(prepared)
    with ExitStack() as stack:
        stack.callback(_remove_if_unused, kept)
        # First of all: while the cluster starts, other processes see the run and may ask it to stop.
        journal = Journal.open(kept.journal)
        writer = journal.start(record)
        stack.callback(writer.close)
        warm = _warm_up(stack, prepared)
        provider = open_provider(prepared, record, clock, lease)
        with waiting(announcer_of(watch), _opening(prepared), first_s=0.0):
            _open(stack, provider, kept, announcer_of(watch))
        clock.restart()
        # A deadline that the plan has given up is not set again.
        keeps_deadline = setup.terms.limits.deadline_s is not None
        began = StartedUp() if start_up is None else start_up.end(keeps_deadline=keeps_deadline)
        resources = RunResources(
            provider=provider, shipment=prepared.shipment, clock=clock, lease=lease, warm=warm
        )
        real = RealRun(
            setup,
            resources,
            journal=journal,
            writer=writer,
            record=record,
            folder=kept,
            callbacks=called,
        )
        result = _drive(real, partial(real.beginning, began), prepared.predicted, watch, nudge)
    return _finished(real, result, prepared, prepared.predicted)


def _new_limit(name: str, given: float | str | None, parse: Callable[[float | str], float]) -> float | None:
    try:
        return None if given is None else parse(given)
    except ExpectedError as error:
        adds = isinstance(given, str) and given.strip().startswith("+")
        hint = "; elastune extend takes additions" if adds else ""
        raise JobError(f"{name} is {given!r}; expected {error}{hint}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLimits:
    """New limits; None: as they were."""

    deadline_s: float | None = None
    budget_usd: float | None = None

    @classmethod
    def of(cls, *, deadline: float | str | None = None, budget: float | str | None = None) -> NewLimits:
        """In the notation of a job."""
        return cls(
            deadline_s=_new_limit("deadline", deadline, positive_duration),
            budget_usd=_new_limit("budget", budget, positive_money),
        )

    def check(self, state: State) -> None:
        """A limit already exceeded would end the run for good."""
        spent, used_s = state.ledger.spent_usd(state.now_s), state.now_s + state.startup_s
        if self.deadline_s is not None and self.deadline_s <= used_s:
            raise JobError(
                f"deadline is {format_duration(self.deadline_s)}, but the run has used "
                f"{format_duration(used_s)} already; expected more, for the whole run"
            )
        if self.budget_usd is not None and self.budget_usd <= spent:
            raise JobError(
                f"budget is {format_usd(self.budget_usd)}, but the run has spent {format_usd(spent)} "
                "already; expected more, for the whole run"
            )


def run_on(
    continuation: Continuation,
    limits: NewLimits,
    *,
    extension: RunExtended | None = None,
    watch: Watch | None = None,
    nudge: Nudge = lambda: None,
    callbacks: Sequence[object] = (),
) -> FinishedRun:
    """Execute the rest of a run. `extension`: it goes on with other limits, after its end, too."""
    found, prepared, core = continuation.found, continuation.prepared, continuation.core
    called = open_callbacks((*prepared.setup.job.callbacks, *callbacks))
    limits.check(core.state)
    add_to_index(found.folder.path)  # it may have been moved
    clock, lease = RunClock.starting_at(core.state.now_s), _lease_of(prepared)
    with ExitStack() as stack:
        # First of all: if another driver has the run, closing the provider would end that driver's nodes.
        journal = Journal.open(found.journal)
        writer = journal.resume(found.record.run)
        stack.callback(writer.close)
        if writer.next_number != core.state.events + 1:
            raise ExecutionError(
                f"run {found.record.run} was resumed by another process; check it with "
                f"`{command_for('status', found.folder, found.record.run)}`, and resume it again if it is "
                "still suspended"
            )
        ControlFolder(found.folder).drop_stops()
        warm = _warm_up(stack, prepared)
        provider = open_provider(prepared, found.record, clock, lease, down_s=continuation.down_s)
        write_final_check(found.folder, None)
        with waiting(announcer_of(watch), _opening(prepared), first_s=0.0):
            _open(stack, provider, found.folder, announcer_of(watch))
        clock.restart(core.state.now_s)
        resources = RunResources(
            provider=provider, shipment=prepared.shipment, clock=clock, lease=lease, warm=warm
        )
        real = RealRun(
            prepared.setup,
            resources,
            journal=journal,
            writer=writer,
            record=found.record,
            folder=found.folder,
            core=core,
            callbacks=called,
        )

        def first() -> AnyEvent:
            if extension is not None:
                real.extend(extension)
            whole_s = limits.deadline_s
            deadline_s = None if whole_s is None else whole_s - core.state.startup_s
            return real.coming_back(continuation.down_s, deadline_s=deadline_s, budget_usd=limits.budget_usd)

        result = _drive(real, first, continuation.predicted, watch, nudge)
    return _finished(real, result, prepared, continuation.predicted)


def _warm_up(stack: ExitStack, prepared: PreparedRun) -> WarmAddress | None:
    """While Ray starts, another process imports what the nodes of this machine need."""
    warm = None
    if is_here(prepared.setup.job, prepared.address):
        warm = open_warm_process(prepared.setup, prepared.shipment)
    if warm is None:
        return None
    stack.callback(warm.close)
    return warm.address


def _opening(prepared: PreparedRun) -> str:
    """What opening the provider is."""
    is_ours = is_here(prepared.setup.job, prepared.address)
    return "starting Ray" if is_ours else "connecting to the Ray cluster"


def _open(stack: ExitStack, provider: RayProvider, folder: RunFolder, say: Callable[[str], object]) -> None:
    stack.callback(_keep_boot_logs, folder, provider, say)
    stack.callback(_check_nodes, folder, provider)
    stack.callback(provider.close)
    provider.open()


def _drive(
    real: RealRun, first: Callable[[], AnyEvent], predicted: Estimate, watch: Watch | None, nudge: Nudge
) -> RunResult:
    opening = Opening(
        record=real.record,
        setup=real.setup,
        predicted=predicted,
        journal=real.journal,
        policy=real.core.policy,
        events=real.core.state.events,
    )
    introduce(watch, opening)
    real.run(first(), watch, nudge=nudge)
    return real.result(predicted)


def _finished(real: RealRun, result: RunResult, prepared: PreparedRun, predicted: Estimate) -> FinishedRun:
    """Writes the result, once the provider is closed."""
    found = FoundRun(journal=real.folder.journal, record=real.record, folder=real.folder)
    finished = FinishedRun(
        result=tuned_run(result, found),
        standing=real.standing(predicted),
        prepared=prepared,
        folder=real.folder,
        record=real.record,
        final_check=read_final_check(real.folder),
    )
    write_real_result(real.folder, finished.to_dict())
    from elastune.views.page.kept_pages import keep_at_end  # noqa: PLC0415

    keep_at_end(found, real.core)
    return finished


def _check_nodes(folder: RunFolder, provider: RayProvider) -> None:
    """The final check, however the run ended: are any of its nodes left?"""
    if _has_begun(folder):
        write_final_check(folder, provider.final_check())


def _keep_boot_logs(folder: RunFolder, provider: RayProvider, say: Callable[[str], object]) -> None:
    """Of nodes that never came up; what they wrote would go with the provider."""
    logs = provider.boot_logs() if isinstance(provider, RayProviderBase) else {}
    if not _has_begun(folder):
        return
    for node, text in logs.items():
        say(f"warning: {write_boot_log(folder, node, text)}")


def _remove_if_unused(folder: RunFolder) -> None:
    """The run failed before its first event."""
    if not _has_begun(folder):
        shutil.rmtree(folder.path, ignore_errors=True)


def _has_begun(folder: RunFolder) -> bool:
    """Whether an event is stored. True in doubt: a journal that cannot be read is not removed."""
    if not folder.journal.exists():
        return False
    try:
        journal = Journal.open(folder.journal, read_only=True)
        return any(journal.summary(record.run).head.events for record in journal.runs())
    except ElastuneError:
        return True


def _lease_of(prepared: PreparedRun) -> NodeLease:
    deadline_s = prepared.setup.terms.limits.deadline_s
    return NodeLease(_MOST_LATE * prepared.predicted.jct_seconds if deadline_s is None else deadline_s)


def open_provider(
    prepared: PreparedRun,
    record: RunRecord,
    clock: RunClock,
    lease: NodeLease,
    *,
    down_s: float | None = None,
) -> RayProvider:
    """The provider of the job, or the cluster at the address; it starts nothing yet. `down_s`: how long ago
    the previous driver went down, if there was one."""
    job = prepared.setup.job
    slot: Mapping[str, int] = {"slot_gpus": job.slot.gpus or 0, "slot_cpus": job.slot.cpus or 1}
    setting = ProviderSetting(
        run=record.run,
        job=record.name,
        terms=prepared.setup.terms.cluster,
        clock=clock,
        seed=record.seed,
        lease=lease,
        needed_until=lambda: lease.needed_until_s,
        down_s=down_s,
        options={**job.cluster.options, **slot},
    )
    if prepared.address is not None:
        from elastune.providers.attached import AttachedProvider  # noqa: PLC0415

        return AttachedProvider(setting, address=prepared.address, **slot)
    provider = load_provider(job.cluster.provider)(setting)
    if not is_for_ray(provider):
        raise JobError(
            f"cluster.provider is {job.cluster.provider}, which cannot train for real; expected "
            f"{', '.join(name for name in known_providers() if name != job.cluster.provider)}, or the "
            "address of a Ray cluster"
        )
    return provider
