"""Whoever wants to hear what happens in a real run, without being in its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from elastune.checkpoints import Store
from elastune.core import AnyCommand, AnyEvent, State
from elastune.job import Job
from elastune.journal import AnyJournal, RunFolder, RunRecord
from elastune.runs.logger import Logger, Started, catch_up, openers
from elastune.runs.remarks import Remark
from elastune.runs.setup import MEASURING


class Listener(Protocol):
    """Called by the loop of a run, so all of it must be quick, but for `close`. Nothing of it may raise."""

    def take(self, event: AnyEvent, commands: Sequence[AnyCommand]) -> None:
        """What happened, after the core has taken it in, and what is done about it."""

    def flush(self) -> None:
        """A few times per second, when all that was taken is durable."""

    def close(self) -> None:
        """The run has ended, or rests. Waits until all is written."""

    def remarks(self) -> Sequence[Remark]:
        """What people should know."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """All of them as one."""

    each: tuple[Listener, ...] = ()

    def take(self, event: AnyEvent, commands: Sequence[AnyCommand]) -> None:
        for listener in self.each:
            listener.take(event, commands)

    def flush(self) -> None:
        for listener in self.each:
            listener.flush()

    def close(self) -> None:
        for listener in self.each:
            listener.close()

    def remarks(self) -> list[Remark]:
        return [remark for listener in self.each for remark in listener.remarks()]


def open_listeners(
    job: Job, state: State, journal: AnyJournal, record: RunRecord, folder: RunFolder, store: Store
) -> Listeners:
    """Those that the job asks for. Of a run that is resumed, they hear first what its journal has.

    Raises `JobError` where a library is missing.
    """
    if job.logging is None or record.policy == MEASURING:  # trials that measure are not what people look for
        return Listeners()
    started = Started.of(record, state, folder)
    logger = Logger(started, openers(job.logging, started), state=state, store=store)
    if state.events:
        catch_up(logger, journal.read(record.run))
    return Listeners((logger,))
