"""Whether the workers of a gang share their work, and how large the gangs of a trainable may be.

Workers that exchange nothing are independent trainings, paid as one. So a trainable gets gangs of several
workers only if a check has shown that they share their work, or if it declares `most_slots` itself. A gang
whose workers exchange nothing in an iteration is refused when it trains. `Tape` records what a check needs.
"""

from __future__ import annotations

import enum
import hashlib
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from elastune.errors import JobError
from elastune.training.batches import BatchShare

HOW_TO_SHARE = (
    "wrap the model (model = worker.wrap(model)), loop over worker.loader(your_data_loader) and call "
    "worker.backward(loss) instead of loss.backward()"
)
SNAPSHOT_AT = 3
"""Weights are compared after so many batches; a shortened iteration has no more."""
_SAMPLED = 256


class Sharing(enum.Enum):
    SHOWN = "shown"
    """In a check, two workers trained one model, each on its part of the data."""
    NOT_SHOWN = "not shown"
    """In a check, they did not."""
    UNCHECKED = "unchecked"


def gang_limit(declared: int | None, sharing: Sharing) -> int | None:
    """The largest gang of a trainable that declares `most_slots`, or None for nothing; None: any.

    A declaration is believed until a check has refuted it. Without either, a trial gets one slot.
    """
    if sharing is Sharing.SHOWN:
        return declared
    if sharing is Sharing.UNCHECKED and declared is not None:
        return declared
    return 1


def refuse_isolation(name: str, size: int, *, exchanges: bool) -> None:
    """After an iteration of a gang."""
    if size > 1 and not exchanges:
        raise JobError(
            f"{name} trained on {size} workers that exchanged nothing: {size} independent trainings, paid as "
            f"one. To share the work, {HOW_TO_SHARE}; to train on one slot, write `most_slots = 1` into the "
            "class"
        )


Numbers = npt.NDArray[np.float64]


class Tape:
    """What one worker did with its gang in a check.

    It also shortens iterations, where loops are those of `worker.batches` and `worker.loader`: after
    `most_batches` of a loop (equal on all ranks), or `most_s` after the first batch was asked for.
    """

    def __init__(
        self,
        *,
        most_batches: int | None = None,
        most_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_batches = most_batches
        self._most_s = most_s
        self._until: float | None = None
        self._clock = clock
        self.was_cut = False
        self.calls: set[str] = set()
        """Of the methods that share work: wrap, batches (also loader), backward, sum (also mean)."""
        self.seen: dict[str, list[int]] = {"rows": [], "inputs": [], "values": []}
        """Hashes of what this rank was given: rows of batches, inputs of wrapped models, values to sum."""
        self.snapshot: list[Numbers] | None = None
        """Some weights and gradients of the wrapped models after `SNAPSHOT_AT` batches."""
        self._models: list[Any] = []

    def limit(self, most_batches: int) -> None:
        """From now on."""
        self._most_batches, self._most_s, self._until, self.was_cut = most_batches, None, None, False

    def take_model(self, model: Any) -> None:
        self.calls.add("wrap")
        self._models.append(model)
        if hasattr(model, "register_forward_pre_hook"):
            model.register_forward_pre_hook(self._take_inputs)

    def take_value(self, value: Any) -> None:
        self.calls.add("sum")
        self.seen["values"].append(_hash(value))

    def take_batches(self, parts: Iterator[BatchShare]) -> Iterator[BatchShare]:
        self.calls.add("batches")
        if self._most_s is not None and self._until is None:
            self._until = self._clock() + self._most_s
        for number, share in enumerate(parts):
            if self._ends(number):
                self.was_cut = True
                break
            self.seen["rows"].append(zlib.crc32(repr(share.rows.tolist()).encode()))
            yield share
            if number + 1 == SNAPSHOT_AT:
                self._take_snapshot()
        self._take_snapshot()

    def weights(self) -> str | None:
        """A hash of all that the wrapped models learn; None: none is wrapped."""
        learned = [each for each in self._parameters() if each.requires_grad]
        if not learned:
            return None
        digest = hashlib.sha256()
        for parameter in learned:
            digest.update(np.ascontiguousarray(_array(parameter)).tobytes())
        return digest.hexdigest()

    def buffers(self) -> frozenset[str]:
        """Names of what wrapped models hold beside it, such as means of BatchNorm, which differ by rank."""
        models = [model for model in self._models if hasattr(model, "named_buffers")]
        return frozenset(name for model in models for name, _ in model.named_buffers())

    def _ends(self, number: int) -> bool:
        if self._most_batches is not None and number >= self._most_batches:
            return True
        return bool(number) and self._until is not None and self._clock() > self._until

    def _take_inputs(self, model: Any, inputs: tuple[Any, ...]) -> None:
        if getattr(model, "training", True):
            self.seen["inputs"].append(_hash(inputs))

    def _take_snapshot(self) -> None:
        """Once, when something was learned."""
        parameters = self._parameters()
        if self.snapshot is None and any(each.grad is not None for each in parameters):
            both = [tensor for each in parameters for tensor in (each, each.grad) if tensor is not None]
            self.snapshot = [_array(tensor).ravel()[:_SAMPLED].astype(np.float64) for tensor in both]

    def _parameters(self) -> list[Any]:
        return [each for model in self._models for each in getattr(model, "parameters", tuple)()]


def _array(tensor: Any) -> npt.NDArray[Any]:
    """Also of types that numpy does not have, such as bfloat16."""
    plain = tensor.detach().cpu()
    try:
        return np.asarray(plain.numpy())
    except TypeError:
        return np.asarray(plain.float().numpy())


def _hash(value: Any) -> int:
    """Of tensors, arrays and numbers, at any depth of tuples, lists and dicts."""
    if hasattr(value, "detach"):
        return zlib.crc32(np.ascontiguousarray(_array(value)).tobytes())
    if isinstance(value, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(value).tobytes())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return zlib.crc32(repr([_hash(each) for each in value]).encode())
    return zlib.crc32(repr(value).encode())
