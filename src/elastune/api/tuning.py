"""Running a job for real."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elastune.api.arguments import AnyJob, as_job, whole
from elastune.api.interrupts import Interrupts
from elastune.api.progress import said, watching
from elastune.api.running import MOST_SEED, RUNS_FOLDER, new_id, now_utc
from elastune.bodies.ray.clock import RunClock
from elastune.core import State
from elastune.errors import ExecutionError, JobError
from elastune.job import Job
from elastune.journal import Body, Journal, RunFolder, RunRecord, find_run
from elastune.providers.rays import Farewell, RayProvider, is_for_ray
from elastune.providers.registry import Setting, load_provider
from elastune.quantities import ExpectedError, positive_duration, positive_money
from elastune.runs.lease import Lease
from elastune.runs.live import Opening, introduce
from elastune.runs.offer import Offer, make_offer
from elastune.runs.real import Means, RealRun, Watch
from elastune.runs.result import Estimate, RunResult
from elastune.runs.resuming import Continuation, take_up
from elastune.runs.shelf import read_farewell, write_farewell, write_offer, write_real_result
from elastune.runs.standing import Standing
from elastune.runs.stopping import StopFile
from elastune.trainables import Reference
from elastune.units import format_duration, format_usd

Nudge = Callable[[], str | None]
"""Looked at a few times per second: who wants the run to rest, if anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A real run that came to its end."""

    result: RunResult
    standing: Standing
    offer: Offer
    folder: RunFolder
    record: RunRecord
    farewell: Farewell | None = None
    """What a last look at its machines found; None: nobody looked."""

    def to_dict(self) -> dict[str, object]:
        farewell = None if self.farewell is None else asdict(self.farewell)
        return {**self.result.to_dict(), "farewell": farewell}


def tune(
    job: AnyJob | Callable[..., object],
    *,
    policy: str | None = None,
    seed: int | None = None,
    address: str | None = None,
    folder: str | Path = RUNS_FOLDER,
    watch: Watch | None = None,
    progress: bool | None = None,
    **sections: Any,
) -> RunResult:
    """Tune a model in real processes: by the deadline, for the budget, with the plan that `quote` shows.

    `job` is a `Job`, a mapping with its keys or the path of a YAML file; or the trainable itself, with the
    keys of the job as arguments. The run is on machines of this computer unless `address` names a Ray
    cluster (or `cluster.provider` another provider). `folder` is where the run's folder is made. `watch` is
    told now and then how the run stands. Ctrl-C saves everything, gives all nodes back and raises
    `KeyboardInterrupt`; `resume` goes on. `progress` writes lines about the run to stderr: what happens, and
    every 15 s how it stands; None: where a terminal or a notebook shows them, and there is no `watch`.

    >>> elastune.tune(train, space={"lr": {"float": [1e-4, 1.0], "log": True}}, metric="accuracy",
    ...     search={"algorithm": "sha", "trials": 16, "max_iterations": 27}, deadline="10m",
    ...     profile={"iteration": "2s"}, cluster={"slots_per_node": 2, "max_nodes": 4, "price_per_hour": 1})
    """
    from elastune.api.profiling import measured, tell_measured  # noqa: PLC0415  which runs a job, too

    given = as_job(_whole_job(job, sections))
    watch = watching(watch, progress)
    say = said(watch)
    with Interrupts(say) as interrupts:
        if not given.is_measured:
            say("the job has no profile: looking for one, or measuring the training first")
        planned, how = measured(given, address=address, folder=folder, watch=watch, nudge=interrupts.reason)
        if how is not None:
            say(tell_measured(how))
        offer = offer_run(planned, policy=policy, seed=seed, address=address)
        say(f"expected: {offer.predicted}")
        return run_offer(offer, folder=folder, watch=watch, nudge=interrupts.reason).result


def offer_run(
    job: AnyJob, *, policy: str | None = None, seed: int | None = None, address: str | None = None
) -> Offer:
    """Everything that can be known and checked before a real run begins. Nothing is started."""
    given = as_job(job)
    first = whole("seed", given.seed if seed is None else seed, 0, MOST_SEED)
    return make_offer(given, policy=policy, seed=first, address=address)


def run_offer(
    offer: Offer, *, folder: str | Path = RUNS_FOLDER, watch: Watch | None = None, nudge: Nudge = lambda: None
) -> Finished:
    """Carry an offer out. Raises `RunInterrupted` if it was nudged to rest."""
    setup, run = offer.setup, new_id()
    kept = RunFolder.create(Path(folder), name=setup.job.name, now_utc=now_utc(), run=run)
    write_offer(kept, setup.job, offer.quote, setup.policy, offer.predicted)
    record = RunRecord(
        run=run,
        name=setup.job.name,
        created_utc=now_utc(),
        body=Body.RAY,
        policy=setup.policy,
        seed=offer.seed,
    )
    clock = RunClock.starting_at()
    with ExitStack() as stack:
        stack.callback(_leave_no_empty_folder, kept)
        lease = Lease()
        provider = open_provider(offer, record, clock, lease)
        stack.callback(_take_leave, kept, provider)
        stack.callback(provider.close)
        provider.open()
        clock.restart()
        real = RealRun(
            setup,
            Means(provider=provider, shipment=offer.shipment, clock=clock, lease=lease),
            journal=Journal.open(kept.journal),
            record=record,
            folder=kept,
        )
        introduce(
            watch,
            Opening(
                record=record,
                setup=setup,
                predicted=offer.predicted,
                journal=real.journal,
                policy=real.core.policy,
            ),
        )
        real.run(real.beginning(), watch, stop=StopFile(kept).reason, rest=nudge)
        result = real.result(offer.predicted)
    return _finished(real, result, offer, offer.predicted)


def resume(  # noqa: PLR0913  all by name
    run: str | Path,
    *,
    folder: str | Path = RUNS_FOLDER,
    trainable: Reference | None = None,
    deadline: float | str | None = None,
    budget: float | str | None = None,
    address: str | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> RunResult:
    """Go on with a run that was interrupted, however it was, from its journal and its checkpoints.

    `deadline` and `budget` are new limits for the whole run; the time for which it was down does not count.
    `trainable` is needed where the old one cannot be imported any more; `progress` is as for `tune`.
    """
    found = find_run(Path(folder), str(run))
    continuation = take_up(found, trainable=trainable, address=address)
    limits = Renewal.of(deadline=deadline, budget=budget)
    watch = watching(watch, progress)
    with Interrupts(said(watch)) as interrupts:
        return run_on(continuation, limits, watch=watch, nudge=interrupts.reason).result


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """New limits; None: as they were."""

    deadline_s: float | None = None
    budget_usd: float | None = None

    @classmethod
    def of(cls, *, deadline: float | str | None = None, budget: float | str | None = None) -> Renewal:
        """As a job writes them."""
        try:
            return cls(
                deadline_s=None if deadline is None else positive_duration(deadline),
                budget_usd=None if budget is None else positive_money(budget),
            )
        except ExpectedError as error:
            raise JobError(f"deadline and budget are {deadline} and {budget}; expected {error}") from None

    def check(self, state: State) -> None:
        """A limit that lies behind would end the run, and for good."""
        spent = state.ledger.spent_usd(state.now_s)
        if self.deadline_s is not None and self.deadline_s <= state.now_s:
            raise JobError(
                f"deadline is {format_duration(self.deadline_s)}, but the run has used "
                f"{format_duration(state.now_s)} already; expected more, for the whole run"
            )
        if self.budget_usd is not None and self.budget_usd <= spent:
            raise JobError(
                f"budget is {format_usd(self.budget_usd)}, but the run has spent {format_usd(spent)} "
                "already; expected more, for the whole run"
            )


def run_on(
    continuation: Continuation,
    limits: Renewal,
    *,
    watch: Watch | None = None,
    nudge: Nudge = lambda: None,
) -> Finished:
    """Carry a continuation out."""
    found, offer, core = continuation.found, continuation.offer, continuation.core
    limits.check(core.state)
    StopFile(found.folder).clear()
    clock = RunClock.starting_at(core.state.now_s)
    with ExitStack() as stack:
        # Before anything is opened: closing the provider again would end the nodes of whoever is at it.
        journal = Journal.open(found.journal)
        writer = journal.resume(found.record.run)
        stack.callback(writer.close)
        if writer.next_number != core.state.events + 1:
            raise ExecutionError(
                f"somebody went on with run {found.record.run} meanwhile; look at it with `elastune status "
                f"{found.record.run}`, and resume it again if it still rests"
            )
        lease = Lease()
        provider = open_provider(offer, found.record, clock, lease, down_s=continuation.down_s)
        write_farewell(found.folder, None)
        stack.callback(_take_leave, found.folder, provider)
        stack.callback(provider.close)
        provider.open()
        clock.restart(core.state.now_s)
        real = RealRun(
            offer.setup,
            Means(provider=provider, shipment=offer.shipment, clock=clock, lease=lease),
            journal=journal,
            record=found.record,
            folder=found.folder,
            going_on=(core, writer),
        )
        introduce(
            watch,
            Opening(
                record=found.record,
                setup=offer.setup,
                predicted=continuation.predicted,
                journal=real.journal,
                policy=core.policy,
                events=core.state.events,
            ),
        )
        first = real.coming_back(
            continuation.down_s, deadline_s=limits.deadline_s, budget_usd=limits.budget_usd
        )
        real.run(first, watch, stop=StopFile(found.folder).reason, rest=nudge)
        result = real.result(continuation.predicted)
    return _finished(real, result, offer, continuation.predicted)


def stop(run: str | Path, *, folder: str | Path = RUNS_FOLDER, reason: str = "somebody asked for it") -> str:
    """Ask a run that goes on somewhere to wind up; it saves, gives all nodes back and keeps the best model.

    Returns the id of the run. Its driver notices within a second.
    """
    found = find_run(Path(folder), str(run))
    summary = Journal.open(found.journal, read_only=True).summary(found.record.run)
    if found.record.body is not Body.RAY:
        raise JobError(f"run {found.record.run} is simulated; only real runs can be stopped")
    if summary.writer is None:
        raise JobError(f"run {found.record.run} does not run: nobody writes its journal any more")
    StopFile(found.folder).write(reason)
    return found.record.run


def _finished(real: RealRun, result: RunResult, offer: Offer, predicted: Estimate) -> Finished:
    """A run whose provider is closed, put on record."""
    finished = Finished(
        result=result,
        standing=real.standing(predicted),
        offer=offer,
        folder=real.folder,
        record=real.record,
        farewell=read_farewell(real.folder),
    )
    write_real_result(real.folder, finished.to_dict())
    return finished


def _take_leave(folder: RunFolder, provider: RayProvider) -> None:
    """However the run ended: is anything of it still alive?"""
    if folder.journal.exists():
        write_farewell(folder, provider.farewell())


def _leave_no_empty_folder(folder: RunFolder) -> None:
    """Of a run that could not even begin."""
    if not folder.journal.exists():
        shutil.rmtree(folder.path, ignore_errors=True)


def open_provider(
    offer: Offer, record: RunRecord, clock: RunClock, lease: Lease, *, down_s: float | None = None
) -> RayProvider:
    """The provider of the job, or the cluster at the address. Nothing is started yet. `down_s`: how long ago
    the driver before this one went down, if there was one."""
    job = offer.setup.job
    slot: Mapping[str, int] = {"slot_gpus": job.slot.gpus or 0, "slot_cpus": job.slot.cpus or 1}
    setting = Setting(
        run=record.run,
        job=record.name,
        terms=offer.setup.terms.cluster,
        clock=clock,
        seed=record.seed,
        lease=lease,
        down_s=down_s,
        options={**job.cluster.options, **slot},
    )
    if offer.address is not None:
        from elastune.providers.attached import AttachedProvider  # noqa: PLC0415

        return AttachedProvider(setting, address=offer.address, **slot)
    provider = load_provider(job.cluster.provider)(setting)
    if not is_for_ray(provider):
        raise JobError(
            f"cluster.provider is {job.cluster.provider}, which cannot run a real training; expected local, "
            "ec2, or an address of a Ray cluster"
        )
    return provider


def _whole_job(job: AnyJob | Callable[..., object], sections: Mapping[str, Any]) -> AnyJob:
    if not sections and not (callable(job) and not isinstance(job, Job)):
        return job
    if isinstance(job, Job | Mapping | str | Path):
        raise JobError(
            f"{', '.join(sections)}: keys of a job go with a trainable; the first argument is a job already"
        )
    name = getattr(job, "__name__", "")
    named = {"name": name} if name.isidentifier() else {}
    return Job(trainable=job, **{**named, **sections})
