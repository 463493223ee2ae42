"""How a torch `DataLoader` forms its batches: the samplers behind it, drawn from seeds.

What a sampler gives must depend on seed and iteration only. Orders of all samples, shuffled or not, are those
of `worker.batches`; other samplers are run with all random numbers seeded, which are then restored.
"""

from __future__ import annotations

import contextlib
import random
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from elastune.errors import JobError
from elastune.training.batches import BatchShare, Rows, share_of, shares
from elastune.training.seeding import shuffled

SEEDABLE = (
    "; write the sampler so that it draws from `self.generator` (a torch.Generator, which worker.loader "
    "seeds), from torch's, numpy's or Python's global random numbers, or from the number given to "
    "set_epoch(epoch)"
)


class BatchSource(Protocol):
    name: str
    is_simple: bool
    """All samples once, in order or shuffled."""

    def draw(self, entropy: tuple[int, ...]) -> Any:
        """All batches of a pass, the same on all ranks."""

    def split(self, drawn: Any, rank: int, size: int) -> list[BatchShare]:
        """This rank's share of each."""


class _Sampled:
    """By a sampler of single samples, cut into batches."""

    def __init__(self, sampler: Any, batch: int, *, drop_last: bool) -> None:
        self._sampler, self._batch, self._drop_last = sampler, batch, drop_last
        self.name = _name_of(sampler)
        self.is_simple = _is_plain_order(sampler)

    def draw(self, entropy: tuple[int, ...]) -> Rows:
        if not self.is_simple:
            return _as_rows(_drawn(self._sampler, entropy))
        count = len(self._sampler.data_source)
        return shuffled(count, *entropy) if hasattr(self._sampler, "generator") else np.arange(count)

    def split(self, drawn: Rows, rank: int, size: int) -> list[BatchShare]:
        return list(shares(drawn, self._batch, rank, size, drop_last=self._drop_last))


class _Batched:
    """By a batch sampler of the user's."""

    is_simple = False

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.name = _name_of(sampler)

    def draw(self, entropy: tuple[int, ...]) -> list[Rows]:
        return [_as_rows(batch) for batch in _drawn(self._sampler, entropy)]

    def split(self, drawn: list[Rows], rank: int, size: int) -> list[BatchShare]:
        return [share_of(batch, rank, size) for batch in drawn]


def open_batches(loader: Any) -> BatchSource:
    from torch.utils.data import BatchSampler  # noqa: PLC0415

    batches = loader.batch_sampler
    if type(batches) is BatchSampler:
        return _Sampled(batches.sampler, batches.batch_size, drop_last=batches.drop_last)
    return _Batched(batches)


def _is_plain_order(sampler: Any) -> bool:
    """All samples once, in order or shuffled."""
    from torch.utils.data import RandomSampler, SequentialSampler  # noqa: PLC0415

    if type(sampler) is SequentialSampler:
        return True
    is_random = type(sampler) is RandomSampler and not sampler.replacement
    return is_random and sampler.num_samples == len(sampler.data_source)


def check_repeats(batches: Any) -> None:
    """A sampler of the user's must give the same order when all random numbers are seeded the same."""
    foreign = [each for each in chain(batches) if not type(each).__module__.startswith("torch.")]
    if not foreign:
        return
    first, again = (fingerprint(_drawn(batches, (0,))) for _ in range(2))
    if first != again:
        raise JobError(
            f"worker.loader: {_name_of(foreign[-1])} gives another order each time, although random numbers "
            f"are seeded; a paused trial could not continue as if it had not been paused{SEEDABLE}"
        )


# Samplers under seeds.


def chain(sampler: Any) -> list[Any]:
    """A batch sampler and the sampler inside it."""
    found = [sampler]
    while (inner := getattr(found[-1], "sampler", None)) is not None and len(found) < 5:
        found.append(inner)
    return found


def _drawn(sampler: Any, entropy: tuple[int, ...]) -> list[Any]:
    """What it gives if all its random numbers come from `entropy`; afterwards they are as before."""
    torch = sys.modules["torch"]
    words = [int(word) for word in np.random.SeedSequence(entropy).generate_state(4)]
    with _seeded(words), contextlib.ExitStack() as undo:
        for each in chain(sampler):
            before = getattr(each, "generator", "absent")
            if before is None or isinstance(before, torch.Generator):
                each.generator = torch.Generator().manual_seed(words[3])
                undo.callback(setattr, each, "generator", before)
            if callable(set_epoch := getattr(each, "set_epoch", None)):
                set_epoch(words[3] >> 1)
        return list(sampler)


@contextlib.contextmanager
def _seeded(words: Sequence[int]) -> Iterator[None]:
    torch = sys.modules["torch"]
    plain, arrays, tensors = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(words[0])
    np.random.seed(words[1])  # noqa: NPY002
    torch.default_generator.manual_seed(words[2])  # not those of GPUs, which differ by rank
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(arrays)  # noqa: NPY002
        torch.set_rng_state(tensors)


def _as_rows(keys: Any) -> Rows:
    """Whole numbers, or keys of any kind as objects."""
    listed = keys.tolist() if hasattr(keys, "tolist") else list(keys)
    if all(isinstance(key, int) for key in listed):
        return np.asarray(listed, dtype=np.int64)
    return np.fromiter((int(key) if hasattr(key, "__index__") else key for key in listed), dtype=object)


def fingerprint(drawn: Any) -> int:
    if isinstance(drawn, np.ndarray) and drawn.dtype != object:
        return zlib.crc32(drawn.tobytes())
    listed = [each.tolist() if hasattr(each, "tolist") else each for each in drawn]
    return zlib.crc32(repr(listed).encode())


def _name_of(sampler: Any) -> str:
    return f"the sampler {type(sampler).__name__}"
