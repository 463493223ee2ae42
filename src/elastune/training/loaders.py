"""A torch `DataLoader` in a gang: the global batches that one worker would get, split over the ranks.

The order of the samples depends on seed and iteration only and is the same on all ranks, so a gang of any
size sees the same global batches. Each rank fetches its own rows with the loader's own options (`collate_fn`,
worker processes, pinned memory). A loader whose order cannot be repeated is refused, with what to write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from elastune.errors import JobError
from elastune.training.batches import BatchShare, Pass, moved
from elastune.training.samplers import SEEDABLE, chain, check_repeats, fingerprint, open_batches
from elastune.wording import seen

_OPTIONS = (
    "num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "prefetch_factor",
    "persistent_workers", "pin_memory_device",
)  # fmt: skip
_AS_PLAIN = (
    "; or loop over the DataLoader itself and use loss.backward(): every trial then trains on one slot "
    "(write `most_slots = 1` into the class)"
)


class Host(Protocol):
    """What a loader asks of its worker."""

    rank: int
    size: int
    device: str
    partition: int | None

    def draw(self) -> tuple[int, ...]:
        """Begin a pass over data: what its order depends on."""

    def agreed(self, number: int) -> bool:
        """Whether all ranks have this number. Every rank has to call it."""

    def limited(self, parts: Iterator[BatchShare]) -> Iterator[BatchShare]:
        """All of them, except in a check."""

    def passing(self, share: BatchShare, *, mean: bool) -> Pass:
        """The loop is at this batch."""


class GangLoader:
    """Iterates like the `DataLoader` it was made of; every pass is one over all of the data."""

    def __init__(self, loader: Any, host: Host) -> None:
        self._host = host
        self._loader = _checked(loader)
        self._batches = open_batches(self._loader)
        self._is_compared = False
        self._rows = _RankRows()
        self._inner: Any = None

    def __len__(self) -> int:
        """Global batches of a pass, the same number on every rank."""
        return len(self._loader)

    @property
    def dataset(self) -> Any:
        return self._loader.dataset

    def __iter__(self) -> Iterator[Any]:
        entropy = self._host.draw()
        parts = self._shares(entropy)
        if not parts:
            raise JobError("worker.loader got no samples; expected at least one batch")
        fetched = self._fetch(parts, entropy)
        for share in self._host.limited(iter(parts)):
            with self._host.passing(share, mean=True):
                batch = next(fetched)
                batch = batch if share.rows.size else _emptied(batch)
                yield batch if self._host.device == "cpu" else _on_device(batch, self._host.device)

    def _shares(self, entropy: tuple[int, ...]) -> list[BatchShare]:
        host = self._host
        drawn = self._batches.draw(entropy)
        if host.partition is not None and host.size > 1:
            raise JobError(
                "worker.loader got partitioned data, of which every worker has its own; expected "
                "worker.batches(worker.data, batch)"
            )
        if host.size > 1 and not (self._is_compared and self._batches.is_simple):
            self._is_compared = True
            if not host.agreed(fingerprint(drawn)):
                raise JobError(
                    f"worker.loader: {self._batches.name} gives another order on each worker; "
                    f"expected the same samples on all, which worker.loader splits{SEEDABLE}"
                )
        return self._batches.split(drawn, host.rank, host.size)

    def _fetch(self, parts: Sequence[BatchShare], entropy: tuple[int, ...]) -> Iterator[Any]:
        """A loader of the same kind for this rank's rows. With persistent workers it is kept."""
        import torch  # noqa: PLC0415  a DataLoader implies it
        from torch.utils.data import DataLoader  # noqa: PLC0415

        self._rows.parts = parts
        if self._inner is None:
            options = {name: getattr(self._loader, name) for name in _OPTIONS if hasattr(self._loader, name)}
            if not options.get("num_workers"):
                options.pop("prefetch_factor", None)
            self._inner = DataLoader(
                self._loader.dataset,
                batch_sampler=self._rows,
                collate_fn=self._loader.collate_fn,
                generator=torch.Generator(),
                **options,
            )
        # The seeds of its worker processes, which may differ by rank, as those of dropout do.
        words = np.random.SeedSequence((*entropy, self._host.rank)).generate_state(1)
        self._inner.generator.manual_seed(int(words[0]))
        return iter(self._inner)


class _RankRows:
    """The rows of this rank as a batch sampler. Where it has none, one sample that is dropped later."""

    def __init__(self) -> None:
        self.parts: Sequence[BatchShare] = ()

    def __iter__(self) -> Iterator[list[Any]]:
        return ((part.rows if part.rows.size else part.stand_in).tolist() for part in self.parts)

    def __len__(self) -> int:
        return len(self.parts)


def _checked(loader: Any) -> Any:
    """Refuses what cannot be split so that a gang learns like one worker."""
    torch = sys.modules.get("torch")
    data = None if torch is None else torch.utils.data
    if data is None or not isinstance(loader, data.DataLoader):
        raise JobError(
            f"worker.loader got {seen(loader)}; expected a torch DataLoader (for arrays and tensors there is "
            "worker.batches(data, batch))"
        )
    if isinstance(loader.dataset, data.IterableDataset):
        raise JobError(
            "worker.loader got a DataLoader of an IterableDataset, whose samples have no numbers to be split "
            f"by; expected a Dataset with __len__ and __getitem__{_AS_PLAIN}"
        )
    if loader.batch_sampler is None:
        raise JobError(
            "worker.loader got a DataLoader with batch_size=None, which has no batches to split; expected "
            f"DataLoader(dataset, batch_size=64){_AS_PLAIN}"
        )
    if type(loader).__iter__ is not data.DataLoader.__iter__:
        raise JobError(
            f"worker.loader got a {type(loader).__name__} with an __iter__ of its own, which cannot be "
            f"split; expected a DataLoader that changes samples in collate_fn or in its Dataset{_AS_PLAIN}"
        )
    for sampler in chain(loader.batch_sampler):
        if isinstance(sampler, data.distributed.DistributedSampler):
            raise JobError(
                "worker.loader got a DataLoader with a DistributedSampler, which splits the samples as well; "
                "expected none: DataLoader(dataset, batch_size=64, shuffle=True)"
            )
    check_repeats(loader.batch_sampler)
    return loader


# Batches as the loader's collate_fn made them.


def _rebuilt(batch: Any, change: Any) -> Any:
    """The same structure with changed columns."""
    if isinstance(batch, Mapping):
        inside = {key: _rebuilt(value, change) for key, value in batch.items()}
        kind: Any = type(batch)
        return inside if kind is dict else kind(inside)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_rebuilt(value, change) for value in batch))
    if isinstance(batch, tuple | list) and not all(isinstance(value, str | int | float) for value in batch):
        return type(batch)(_rebuilt(value, change) for value in batch)
    return change(batch)


def _emptied(batch: Any) -> Any:
    """A batch of one sample without it: a rank without samples still averages the gradients."""

    def cut(column: Any) -> Any:
        try:
            return column[:0]
        except (TypeError, IndexError, KeyError):
            raise JobError(
                f"worker.loader: the last batch has fewer samples than the gang has workers, and a "
                f"{type(column).__name__} cannot be cut to no samples; expected drop_last=True, or a "
                "collate_fn that gives tensors"
            ) from None

    return _rebuilt(batch, cut)


def _on_device(batch: Any, device: str) -> Any:
    if hasattr(batch, "to") and not isinstance(batch, tuple | list | dict):
        return moved(batch, device)
    return _rebuilt(batch, lambda column: moved(column, device))
