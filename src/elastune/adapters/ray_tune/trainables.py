"""Trainables of Ray Tune, functions and classes, as trainables of Elastune: an iteration is one report.

A function that reports no checkpoint with an iteration cannot be saved there. The state is then the last
checkpoint before, or none, and the number of reports since: a trial that continues makes them again, unseen.
Both kinds have one slot, as in Ray Tune, and the random numbers that they would have there.
"""

from __future__ import annotations

import contextlib
import inspect
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Number
from pathlib import Path
from typing import Any, ClassVar

from elastune.adapters.adapted_trainable import adapt, require
from elastune.adapters.ray_tune import session as sessions
from elastune.adapters.ray_tune.ray_trial import RayTrial, Stop
from elastune.adapters.ray_tune.spaces import ConfigLayout
from elastune.adapters.suspended import RandomState, SuspendedCall
from elastune.errors import JobError
from elastune.training.running import NO_MODEL, as_number
from elastune.training.trainable import State, Trainable
from elastune.training.unsaved import is_no_model
from elastune.training.worker import Worker
from elastune.wording import seen

# Ray Tune's name for a number that a function returns without a name.
UNNAMED = "_metric"
_EXPECTED = "a function train(config) that calls report, or a subclass of ray.tune.Trainable"


def trainable(
    user: Any, param_space: Mapping[str, Any] | None = None, *, stop: Stop = None, name: str | None = None
) -> type[Trainable]:
    """A trainable of Elastune from one of Ray Tune.

    `param_space` is that of the `Tuner`; it is needed where values are lists, dicts or other objects, and for
    `sample_from`. `stop` is that of the `RunConfig`.

    >>> elastune.tune(ray_tune.trainable(train_fn), space=ray_tune.space(param_space), metric="accuracy",
    ...     search={"algorithm": "asha", "trials": 20, "max_iterations": 10}, deadline="10m")
    """
    require("ray", extra="ray-tune")
    called = name or str(getattr(user, "__name__", "trainable"))
    return adapted(user, ConfigLayout.of(param_space or {}), stop, called)


def adapted(user: Any, layout: ConfigLayout, stop: Stop, name: str) -> type[Trainable]:
    options = {"layout": layout, "stop": stop, "name": name}
    if not callable(user):
        raise JobError(f"the trainable is {seen(user)}; expected {_EXPECTED}")
    made: type[RayTrial]
    if isinstance(user, type):
        made = adapt(RayClass, _check_class(user), **options)
    else:
        made = adapt(RayFunction, _check_function(user), **options)
    made.__name__ = made.__qualname__ = name
    return made


def _check_class(user: type) -> Callable[..., Any]:
    missing = [method for method in ("setup", "step") if not callable(getattr(user, method, None))]
    if missing or not any(each.__module__.startswith("ray.tune.") for each in user.__mro__):
        raise JobError(f"{user.__name__} is no trainable of Ray Tune; expected {_EXPECTED}")
    return partial(_made, user)


def _made(user: type, arguments: Mapping[str, Any]) -> Any:
    return user(**arguments)


def _check_function(user: Callable[..., Any]) -> Callable[..., Any]:
    name = getattr(user, "__name__", type(user).__name__)
    if "parameter_registry" in getattr(getattr(user, "__code__", None), "co_freevars", ()):
        raise JobError(
            f"{name} has its parameters in the object store of Ray Tune; change ray.tune.with_parameters to "
            "elastune.adapters.ray_tune.with_parameters"
        )
    with contextlib.suppress(ValueError):  # functions written in C may have no signature
        try:
            inspect.signature(user).bind({})
        except TypeError as error:
            raise JobError(
                f"{name} cannot be called as train(config): {error}; expected {_EXPECTED}"
            ) from None
    return user


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """A copy of the folder that was reported, the random numbers then, and its iteration."""

    folder: Path
    random: RandomState
    iteration: int


class RayFunction(RayTrial):
    """A function `train(config)`, suspended in its reports."""

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.begin(config, worker)
        self.session = self.trial_info
        self.call: SuspendedCall[sessions.Reported] = SuspendedCall(self._train, name=self.options["name"])
        self.session.call = self.call
        self.reported: sessions.Reported | None = None
        self.kept: LastCheckpoint | None = None
        self.iteration = 0
        self.row: dict[str, float] = {}
        sessions.enter(self.session, self.make)

    def load(self, state: State) -> None:
        self.iteration = state["iteration"]
        if is_no_model(state):
            self.again = self.iteration
            return
        self.seconds, self.is_done = state["seconds"], state["done"]
        random = RandomState.of(state["random"])
        folder = self.home / "start"
        sessions.write_folder(state["files"], folder)
        sessions.copy_folder(folder, self.home / "kept")
        self.kept = LastCheckpoint(folder=self.home / "kept", random=random, iteration=state["from"])
        self.session.start_folder, self.session.start_random = folder, random
        self.again = self.iteration - state["from"]

    again = 0
    """Reports to be made again after a start from an earlier checkpoint."""

    def step(self) -> Mapping[str, Any] | None:
        if self.is_done:
            return None
        with self.as_its_own():
            while self.again and self._advance() is not None:
                self.again -= 1
            reported = self._advance()
        if reported is None:
            if not self.iteration:
                raise JobError(
                    f"{self.options['name']} returned without a report; expected tune.report(metrics) in it, "
                    "or metrics that it returns"
                )
            return None
        self.iteration += 1
        result = self.result(reported.metrics, self.iteration)
        numbers = ((name, as_number(value)) for name, value in result.items())
        self.row = {name: number for name, number in numbers if number is not None}
        return result

    def save(self) -> State:
        """Without a checkpoint so far, a record from which the runtime trains again from the beginning."""
        folder, at, random = None, 0, self.random
        if self.reported is not None and self.reported.folder is not None and not self.call.is_over:
            folder, at = self.reported.folder, self.iteration
        elif self.kept is not None:
            folder, at, random = self.kept.folder, self.kept.iteration, self.kept.random
        if folder is None:
            return {
                "elastune": NO_MODEL,
                "why": f"{self.options['name']} has reported no checkpoint; train it again to get its model",
                "config": dict(self.given),
                "iteration": self.iteration,
                "metrics": self.row,
            }
        return {
            "files": sessions.read_folder(folder),
            "random": random.to_plain(),
            "from": at,
            "iteration": self.iteration,
            "seconds": self.seconds if self.counts_time else 0.0,
            "done": self.is_done,
        }

    def close(self) -> None:
        try:
            self.call.close()
        finally:
            sessions.leave()
            super().close()

    def _advance(self) -> sessions.Reported | None:
        if self.reported is not None and self.reported.folder is not None:
            # The function may remove the folder as soon as it goes on.
            sessions.copy_folder(self.reported.folder, self.home / "kept")
            at = self.iteration - self.again
            self.kept = LastCheckpoint(folder=self.home / "kept", random=self.random, iteration=at)
        self.reported = self.call.advance()
        return self.reported

    def _train(self) -> None:
        if inspect.isgeneratorfunction(inspect.unwrap(getattr(self.make, "func", self.make))):
            for given in self.make(self.config):
                self._report_given(given)
        else:
            self._report_given(self.make(self.config))

    def _report_given(self, given: object) -> None:
        """What a function returns or yields counts as a report; nothing does not."""
        if given is None or (isinstance(given, Mapping) and not given):
            return
        if not isinstance(given, Mapping | Number):
            raise JobError(f"{self.options['name']} returned {seen(given)}; expected metrics or one number")
        self.session.report(given if isinstance(given, Mapping) else {UNNAMED: given})


class _Storage:
    """In place of Ray's own, which would write to `~/ray_results`."""

    def __init__(self, folder: Path) -> None:
        self.trial_fs_path = self.trial_working_directory = str(folder)

    def persist_artifacts(self) -> None:
        """The folder of a trial is not kept."""


class RayClass(RayTrial):
    """A subclass of `ray.tune.Trainable`."""

    TRIAL_INFO: ClassVar[str] = "__trial_info__"

    def setup(self, config: Mapping[str, Any], worker: Worker) -> None:
        self.begin(config, worker)
        given = {**self.config, self.TRIAL_INFO: self.trial_info}
        with self.as_its_own():
            self.user = self.make({"config": given, "storage": _Storage(self.folder)})

    def step(self) -> Mapping[str, Any] | None:
        if self.is_done:
            return None
        with self.as_its_own():
            result = self.user.train()
        return self.result(_without_automatic(result), self.worker.iteration)

    def save(self) -> State:
        target = self.home / "saved"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        with self.as_its_own():
            given = self.user.save_checkpoint(str(target))
        return {
            "files": None if isinstance(given, Mapping) else sessions.read_folder(target),
            "given": dict(given) if isinstance(given, Mapping) else None,
            "random": self.random.to_plain(),
            "iteration": self.user.iteration,
            "seconds": self.seconds if self.counts_time else 0.0,
            "done": self.is_done,
        }

    def load(self, state: State) -> None:
        given = state["given"]
        if given is None:
            folder = self.home / "start"
            sessions.write_folder(state["files"], folder)
            given = str(folder)
        with self.as_its_own():
            self.user.load_checkpoint(given)
        self.user._iteration = state["iteration"]  # noqa: SLF001  Ray sets it so, too
        self.seconds, self.is_done = state["seconds"], state["done"]
        self.random = RandomState.of(state["random"])

    def close(self) -> None:
        try:
            self.user.stop()
        finally:
            super().close()


def _without_automatic(result: Mapping[str, Any]) -> dict[str, Any]:
    """Without what Ray Tune adds to every result."""
    from ray.tune.result import AUTO_RESULT_KEYS  # noqa: PLC0415  slow

    return {name: value for name, value in result.items() if name not in AUTO_RESULT_KEYS}


def with_parameters(user: Any, **arguments: Any) -> Any:
    """As `ray.tune.with_parameters`, but they are sent with the trainable, not through Ray's object store."""
    if not isinstance(user, type):
        bound = partial(user, **arguments)
        for name in ("__name__", "_resources"):
            if hasattr(user, name):
                setattr(bound, name, getattr(user, name))
        return bound

    class WithParameters(user):  # type: ignore[misc]
        def setup(self, config: Mapping[str, Any]) -> None:
            super().setup(config, **arguments)

    WithParameters.__name__ = user.__name__
    return WithParameters
