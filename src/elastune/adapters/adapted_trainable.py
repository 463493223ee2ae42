"""Shared by adapters: the class of a trainable, checks of what the user's function returns, torch's options.

torch's optimizers keep options and learned state in one dict, and the config may have changed since a save.
So a state also has the options with which its optimizers began. Where those of the present config differ, the
present ones count; a learning rate that a schedule has changed since is changed in proportion.
"""

from __future__ import annotations

import importlib.util
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from elastune.errors import InvariantError, JobError
from elastune.training.trainable import Trainable
from elastune.training.worker import Worker
from elastune.wording import seen, several

Make: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""The user's function: from the hyperparameters to what the framework trains."""


class Adapter(Trainable):
    """A trainable whose model, data and options come from the user's function."""

    most_slots: ClassVar[int | None] = 1
    options: ClassVar[Mapping[str, Any]]

    @staticmethod
    def make(config: Mapping[str, Any]) -> Any:  # noqa: ARG004
        """The user's function, in the class that `adapt` makes."""
        raise InvariantError("an adapter has no make(config); expected the class that its factory returns")


A = TypeVar("A", bound=Adapter)


def adapt(base: type[A], make: Make, **options: Any) -> type[A]:
    """A new class for this function, because trainables are made without arguments."""
    if not callable(make) or isinstance(make, type):
        raise JobError(f"{base.__name__} got {seen(make)}; expected a function make(config)")
    name = getattr(make, "__name__", base.__name__)
    body = {"make": staticmethod(make), "options": options, "__doc__": base.__doc__}
    return cast("type[A]", types.new_class(name, (base,), exec_body=lambda inside: inside.update(body)))


def require(library: str, *, extra: str) -> None:
    """Check that it is installed, without the seconds that importing it may take."""
    if importlib.util.find_spec(library) is None:
        raise JobError(
            f"the adapter needs {library}, which is not installed: pip install 'elastune[{extra}]'"
        )


def pieces(made: object, *, least: int, most: int, expected: str) -> list[Any]:
    """The items of the tuple that `make` returned; missing ones at the end are None."""
    if not isinstance(made, tuple) or not least <= len(made) <= most:
        what = f"a {type(made).__name__}"
        if isinstance(made, tuple):
            what = f"{len(made)} things ({several(type(each).__name__ for each in made)})"
        raise JobError(f"make(config) returned {what}; expected {expected}")
    return [*made, *[None] * (most - len(made))]


def piece(value: object, is_right: bool, *, expected: str) -> None:
    """Check one of them."""
    if not is_right:
        raise JobError(f"make(config) gave a {type(value).__name__}; expected {expected}")


def is_visiting(worker: Worker) -> bool:
    """Whether models hop: the data are `worker.data`, one partition, and not those of `make`."""
    return getattr(worker, "partition", None) is not None


def visited_pieces(made: object) -> tuple[Any, Callable[[Any], Any] | None]:
    """Where models hop, `make` returns the model, and perhaps a function from a partition to its data."""
    items = made if isinstance(made, tuple) else (made,)
    functions = [each for each in items[1:] if callable(each) and not hasattr(each, "__len__")]
    return items[0], functions[0] if functions else None


def pair_of(data: Any) -> tuple[Any, ...]:
    """The inputs and the targets of a partition: a pair, or what is called x and y."""
    if isinstance(data, tuple):
        return data
    if isinstance(data, Mapping):
        if not {"x", "y"} <= set(data):
            raise JobError(
                f"a partition has the columns {several(map(str, data))}; expected x and y, or a make(config) "
                "that returns the model and a function from a partition to its data"
            )
        return data["x"], data["y"]
    return (data,)


def checked_count(value: object, name: str) -> int:
    """An option such as batches or rounds per iteration."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise JobError(f"{name} is {seen(value)}; expected a whole number from 1")
    return value


def plain(value: Any) -> Any:
    """Subclasses of dict become dicts, as a checkpoint requires."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def this_machine(slots: int | None = None, *, cpus: int = 1) -> dict[str, Any]:
    """The `cluster` of a script that names none: this computer, with a slot for each `cpus` of its cores."""
    cores = os.cpu_count() or 1
    count = max(1, cores // cpus) if slots is None or slots < 1 else slots
    return {"cluster": {"nodes": 1, "slots_per_node": count, "price_per_hour": 0}}


Options: TypeAlias = list[dict[str, Any]]
"""Of one optimizer: of each group of parameters."""


def options_of(optimizers: Iterable[Any]) -> list[Options]:
    """As configured: call it before a state is loaded. A schedule may already have changed the rate."""
    return [[_options(group) for group in each.param_groups] for each in optimizers]


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in group.items() if name not in ("params", "initial_lr")}
    return options | {"lr": group.get("initial_lr", group["lr"])}


def renew(
    saved: Sequence[Mapping[str, Any]],
    schedules: Sequence[dict[str, Any]],
    began: Sequence[Options],
    present: Sequence[Options],
) -> None:
    """Put the hyperparameters of the present config into saved states of optimizers and schedules."""
    for number, (state, before, now) in enumerate(zip(saved, began, present, strict=True)):
        ratios = []
        for group, old, new in zip(state["param_groups"], before, now, strict=True):
            ratio = new["lr"] / old["lr"] if old.get("lr") else 1.0
            changed = {name: value for name, value in new.items() if name in old and value != old[name]}
            scaled = {name: group[name] * ratio for name in ("lr", "initial_lr") if name in group}
            group.update(changed | (scaled if "lr" in changed else {}))
            ratios.append(ratio)
        if len(schedules) == len(saved):
            _rescale(schedules[number], ratios)


def _rescale(schedule: dict[str, Any], ratios: Sequence[float]) -> None:
    for name in ("base_lrs", "_last_lr"):
        if len(values := schedule.get(name) or []) == len(ratios):
            pairs = zip(values, ratios, strict=True)
            schedule[name] = [value * ratio if ratio != 1.0 else value for value, ratio in pairs]
