"""What a training gets of its gang, and the methods that make a gang learn like one worker.

The effective batch is the same at any gang size (RubberBand, section 3): `batches` and `loader` split each
global batch over the ranks, `backward` weights by the samples of the global batch, not by those of the rank.
Random numbers depend on the seed, the iteration and the rank only. The threads of a worker's libraries are
limited, so that the slots of a node do not slow each other down.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, overload

import numpy as np

from elastune.errors import JobError
from elastune.training.batches import (
    BatchShare,
    Pass,
    RowTable,
    checked_count,
    open_table,
    passed_over,
    proportional_shares,
    shares,
)
from elastune.training.groups import Group
from elastune.training.loaders import GangLoader
from elastune.training.seeding import seed_libraries, shuffled
from elastune.training.sharing import Tape


def trial_seed(run_seed: int, trial: int) -> int:
    """Small enough for every library (scikit-learn takes 32 bits)."""
    return int(np.random.SeedSequence((abs(run_seed), trial)).generate_state(1)[0] >> 1)


_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads(count: int) -> None:
    """Of libraries that are imported already and of later ones."""
    os.environ.update(dict.fromkeys(_VARIABLES, str(count)))
    _limit_loaded(count, len(sys.modules))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(count)


@functools.lru_cache(maxsize=1)
def _limit_loaded(count: int, modules: int) -> None:  # noqa: ARG001
    """Once for so many modules: looking for their libraries takes 3 ms, which short visits would feel."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415
    except ImportError:
        return  # it comes with scikit-learn; without it, numpy keeps its default
    threadpool_limits(count)


_ORDER, _SETUP, _STEP = range(3)  # the purposes of random streams


class Worker:
    """One rank of a gang. `iteration` is the number of the iteration being trained, from 1; 0 in `setup`."""

    def __init__(self, group: Group, *, seed: int, device: str, trial: int = 0) -> None:
        self.rank = group.rank
        self.size = group.size
        self.seed = seed
        self.device = device
        self.trial = trial
        """The number of the trial in its run."""
        self._group = group
        self._iteration = 0
        self._seeded = (0, 0)
        self._shuffles = 0
        self._wrapped: list[Any] = []
        self._open: list[Pass] = []
        self.exchanges = False
        """Whether the workers of this gang share anything: gradients (`wrap`), sums or means."""
        self.tape: Tape | None = None
        """In a check: what is recorded."""
        self._data: Any = None
        self.has_read_data = False
        """Whether the training has asked for the present partition."""
        self.rows: int | None = None
        """Of that partition."""
        self.partition: int | None = None
        """Its number."""
        self.all_show_it = False
        """Whether all ranks have the same one."""
        self.visit = 0
        """Counts the partitions so far."""
        self.offered = 0
        """Rows of that partition that `batches` and `loader` have offered so far; 0: neither was used."""

    def __repr__(self) -> str:
        return f"<worker {self.rank} of {self.size} on {self.device}>"

    @property
    def data(self) -> Any:
        """Where data are partitioned: the partition to train or evaluate on now."""
        self.has_read_data = True
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        self._data, self.has_read_data = data, False

    @property
    def iteration(self) -> int:
        return self._iteration

    @iteration.setter
    def iteration(self, number: int) -> None:
        """Set by the runtime before each step."""
        self._iteration = number
        self._shuffles = 0

    def wrap(self, model: Any, **options: Any) -> Any:
        """The model on this worker's device; in a gang, one whose gradients are averaged (torch's DDP).

        `options` are those of DistributedDataParallel, such as `find_unused_parameters`. State dicts are
        those of the model itself, so a state saved by a gang fits one worker and the other way round.
        """
        here = model.to(self.device)
        wrapped = self._group.wrap(here, options)
        self._wrapped.append(wrapped)
        self.exchanges = self.exchanges or wrapped is not here
        if self.tape is not None:
            self.tape.take_model(wrapped)
        return wrapped

    @overload
    def batches(
        self, data: Any, batch: int, *, micro: None = None, shuffle: bool = True, drop_last: bool = False
    ) -> Iterator[Any]: ...
    @overload
    def batches(
        self, data: Any, batch: int, *, micro: int, shuffle: bool = True, drop_last: bool = False
    ) -> Iterator[Iterator[Any]]: ...

    def batches(
        self,
        data: Any,
        batch: int,
        *,
        micro: int | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> Iterator[Any]:
        """This rank's share of each global batch of `batch` samples, in the same order for all ranks.

        The order depends on seed and iteration, and on how many orders were drawn in it before. The last
        batch may be smaller, and a share may then be empty. With `micro`, the most samples that one worker
        can take at once, each batch is itself a loop over its micro-batches, each with its `backward`. Where
        data are partitioned, each rank contributes to every global batch in proportion to its own rows.
        """
        batch = checked_count(batch, "batch")
        micro = None if micro is None else checked_count(micro, "micro")
        table = open_table(data, self.device)
        if not table.count:
            raise JobError("worker.batches got no samples; expected at least one")
        self.enter_iteration()
        order = np.arange(table.count)
        if shuffle:
            order = shuffled(table.count, *self.draw())
        if self.partition is not None and self.size > 1 and not self.all_show_it:
            counts = self._counts(table.count)
            parts = proportional_shares(order, batch, self.rank, counts, drop_last=drop_last)
        else:
            parts = shares(order, batch, self.rank, self.size, drop_last=drop_last)
        parts = self.limited(parts)
        if drop_last:  # left out on purpose
            self.offered += table.count % batch
        if micro is None:
            return self._whole(table, parts)
        return self._split(table, parts, micro)

    def loader(self, loader: Any) -> GangLoader:
        """A torch `DataLoader` for a gang: this rank's share of each of its batches, in any loop.

        All ranks together see the batches that one worker would see, whose order depends on seed and
        iteration. `collate_fn`, worker processes and pinned memory stay as they are. Inside the loop,
        `worker.backward(loss)` takes the mean loss of the share. Raises `JobError` for a loader that cannot
        be split or whose order cannot be repeated.
        """
        return GangLoader(loader, self)

    def backward(self, loss: Any, *, weight: float | None = None) -> None:
        """Add the gradients of the *mean* loss over the global batch.

        In a loop over `worker.loader`, `loss` is the mean over this rank's samples, as for `loss.backward()`.
        In a loop over `worker.batches` it is their sum (`reduction="sum"`). In both it may be one loss per
        sample. `weight` is what a mean loss was divided by, if that is not the number of samples: the sum of
        class weights, or the tokens that were not ignored.
        """
        if not self._open:
            raise JobError(
                "worker.backward belongs into a loop over worker.batches or worker.loader, which sets the "
                "batch size"
            )
        if self.size > 1 and not self._wrapped:
            raise JobError("worker.backward needs a model from worker.wrap(model), which averages gradients")
        if len({each.share.total for each in self._open}) > 1:
            raise JobError("worker.backward is inside two loops over worker.batches of different batch sizes")
        current = self._open[-1]
        if loss.ndim and loss.shape[0] != current.samples:
            expected = "their mean" if current.mean else "their sum (reduction='sum')"
            raise JobError(
                f"worker.backward got losses of shape {tuple(loss.shape)} for {current.samples} samples; "
                f"expected {expected}, or one loss per sample"
            )
        for each in self._open:
            each.went_backward = True
        if self.tape is not None:
            self.tape.calls.add("backward")
        # DDP takes the mean over the ranks.
        (loss.sum() * (self.size * self._part(current, loss, weight))).backward()

    def _part(self, current: Pass, loss: Any, weight: float | None) -> float:
        """The factor by which this rank's loss becomes its part of the global mean."""
        if weight is not None:
            weights = self._group.total(float(weight))
            mine = float(weight) if current.mean and not loss.ndim else 1.0
            return mine / weights if weights else 0.0
        is_mean = current.mean and not loss.ndim
        return (current.samples if is_mean else 1.0) / current.share.total

    def sum(self, value: Any) -> Any:
        """The sum over the ranks, of a number or a tensor. Every rank has to call it."""
        self._take_exchange(value)
        return self._group.total(value)

    def mean(self, value: Any, weight: float | None = None) -> Any:
        """The mean over the ranks, of a number or a tensor; `weight` is often the samples of this rank."""
        self._take_exchange(value)
        if weight is None:
            return self._group.total(value) / self.size
        together = self._group.total(weight)
        return self._group.total(value * weight) / together if together else value * float("nan")

    def _take_exchange(self, value: Any) -> None:
        self.exchanges = self.exchanges or self.size > 1
        if self.tape is not None:
            self.tape.take_value(value)

    # For loaders (`loaders.Host`).

    def draw(self) -> tuple[int, ...]:
        """What the next order of samples depends on; each of an iteration is another one."""
        self.enter_iteration()
        self._shuffles += 1
        return (self.seed, _ORDER, self._iteration, self._shuffles - 1, *self._where)

    def agreed(self, number: int) -> bool:
        return bool(self._group.total(number) == number * self.size)

    def limited(self, parts: Iterator[BatchShare]) -> Iterator[BatchShare]:
        return parts if self.tape is None else self.tape.take_batches(parts)

    def passing(self, share: BatchShare, *, mean: bool) -> Pass:
        current = Pass(self._open, share, mean=mean)
        current.samples = share.rows.size
        self.offered += share.rows.size
        return current

    # For the runtime.

    def show(self, data: Any, *, partition: int, rows: int) -> None:
        """The partition of the next step or evaluation. If all ranks have it, they share its batches."""
        self.all_show_it = self._all_have(partition)
        self.data, self.partition, self.rows = data, partition, rows
        self.visit += 1
        self.offered = 0
        self._shuffles = 0

    def _all_have(self, number: int) -> bool:
        if self.size == 1:
            return True
        totals = [int(self._group.total(number**power)) for power in (1, 2)]
        return totals == [self.size * number**power for power in (1, 2)]

    def enter_setup(self) -> None:
        """Seed the libraries equally on every rank: models begin equal at any gang size."""
        seed_libraries(self.seed, _SETUP)

    def enter_iteration(self) -> None:
        """Seed the libraries once per iteration: continuing from a checkpoint is like never having stopped.

        By rank, because masks of dropout should differ. A function that builds its model in the first
        iteration has done so when it asks for the first batch, so its iteration begins there.
        """
        now = (self._iteration, self.visit)
        if self._iteration and now != self._seeded:
            self._seeded = now
            seed_libraries(self.seed, _STEP, self._iteration, self.rank, *self._where)

    @property
    def _where(self) -> tuple[int, ...]:
        """What else random numbers depend on: the partition, not the number of the visit."""
        return () if self.partition is None else (self.partition,)

    def _counts(self, mine: int) -> list[int]:
        """The samples of each rank, where each has its own."""
        return [int(self._group.total(mine if rank == self.rank else 0)) for rank in range(self.size)]

    def _whole(self, table: RowTable, parts: Iterator[BatchShare]) -> Iterator[Any]:
        for share in parts:
            with self.passing(share, mean=False):
                yield table.pick(share.rows)

    def _split(self, table: RowTable, parts: Iterator[BatchShare], micro: int) -> Iterator[Iterator[Any]]:
        for share in parts:
            micros = self._micros(table, share, micro)
            yield micros
            if next(micros, None) is not None:
                raise passed_over()

    def _micros(self, table: RowTable, share: BatchShare, micro: int) -> Iterator[Any]:
        *first, last = share.micros(micro)
        self.offered += share.rows.size
        with Pass(self._open, share) as current:
            with ExitStack() as silence:
                for model in self._wrapped:
                    if hasattr(model, "no_sync"):
                        silence.enter_context(model.no_sync())
                for rows in first:
                    yield current.offer(table.pick(rows), rows.size)
                    current.check()
            yield current.offer(table.pick(last), last.size)
            current.check()


def make_worker(
    group: Group, *, seed: int, device: str = "cpu", threads: int | None = None, trial: int = 0
) -> Worker:
    """`seed` belongs to the trial, see `trial_seed`; `threads` limits those of its libraries."""
    if threads is not None:
        limit_threads(threads)
    return Worker(group, seed=seed, device=device, trial=trial)
