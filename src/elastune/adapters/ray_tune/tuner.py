"""`Tuner(...).fit()` and `run(...)` of Ray Tune, carried out by `elastune.tune`."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

from elastune.adapters.adapted_trainable import this_machine
from elastune.adapters.ray_tune.results import Analysis, ResultGrid, read_grid
from elastune.adapters.ray_tune.searches import TunerSettings, translate
from elastune.adapters.ray_tune.trainables import adapted
from elastune.api.simulating import RUNS_FOLDER
from elastune.api.tuning import tune
from elastune.errors import JobError
from elastune.history.result import RunResult
from elastune.wording import seen

_log = logging.getLogger("elastune")
_REMOTE = "://"
# Arguments of `run` that `TunerSettings` or the folder of the run take up.
_RUN = ("name", "metric", "mode", "stop", "time_budget_s", "num_samples", "search_alg", "scheduler")
# What has no effect on results: Elastune shows, saves and resumes in its own way.
_IGNORED = (
    "verbose", "progress_reporter", "log_to_file", "trial_name_creator", "trial_dirname_creator",
    "sync_config", "checkpoint_config", "reuse_actors", "max_concurrent_trials", "keep_checkpoints_num",
    "checkpoint_freq", "checkpoint_score_attr", "checkpoint_at_end", "chdir_to_trial_dir", "fail_fast",
    "export_formats", "raise_on_failed_trial", "local_dir", "storage_filesystem",
)  # fmt: skip
_REFUSED = ("restore", "resume", "resume_config")


class Tuner:
    """As `ray.tune.Tuner`. Arguments of `fit` are keys of the job, such as `deadline` and `budget`."""

    tune: ClassVar[Callable[..., RunResult]] = staticmethod(tune)
    """Carries out the job."""

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Mapping[str, Any] | None = None,
        tune_config: Any = None,
        run_config: Any = None,
    ) -> None:
        if trainable is None:
            raise JobError("Tuner has no trainable; expected a function train(config), or a class")
        self._user = trainable
        self._param_space = {} if param_space is None else param_space
        self._tune = tune_config
        self._run = run_config

    @classmethod
    def restore(cls, path: str, *_: Any, **__: Any) -> Tuner:
        raise JobError(f"Tuner.restore({path!r}) is not carried over; call elastune.resume(run) instead")

    def fit(self, **keys: Any) -> ResultGrid:
        """Run it. `keys` are keys of a job (`deadline="10m"`, `budget=5`, `cluster=...`, `search="asha"`) or
        arguments of `elastune.tune`, and come before what the `Tuner` says."""
        tuned, ran = self._tune, self._run
        failures = getattr(ran, "failure_config", None)
        _note("RunConfig", ran, {"callbacks": None})
        _note("TuneConfig", tuned, {"max_concurrent_trials": None})
        settings = TunerSettings(
            param_space=self._param_space,
            metric=getattr(tuned, "metric", None),
            mode=getattr(tuned, "mode", None),
            samples=getattr(tuned, "num_samples", 1),
            search_alg=getattr(tuned, "search_alg", None),
            scheduler=getattr(tuned, "scheduler", None),
            stop=getattr(ran, "stop", None),
            time_budget_s=getattr(tuned, "time_budget_s", None),
            resources=_resources(self._user),
            max_failures=getattr(failures, "max_failures", 0),
            never_ends=_never_ends(self._user),
        )
        where = _places(getattr(ran, "name", None), getattr(ran, "storage_path", None))
        return fit(self._user, settings, {**where, **keys}, self.tune)

    def get_results(self) -> ResultGrid:
        raise JobError("get_results is not carried over; keep what fit() returns, or call elastune.load_run")


def _never_ends(user: object) -> bool:
    """A class trains until it is stopped, unless its own code reports `done`."""
    if not isinstance(user, type):
        return False
    from ray.tune import Trainable  # noqa: PLC0415  slow

    own = takewhile(lambda base: base is not Trainable, user.__mro__)
    methods = (value for base in own for value in vars(base).values() if inspect.isfunction(value))
    return not any(_mentions_done(method.__code__) for method in methods)


def _mentions_done(value: object) -> bool:
    """As a key, a keyword, or Ray's constant; the keys of a dict are one constant."""
    if isinstance(value, CodeType):
        return "DONE" in value.co_names or any(map(_mentions_done, value.co_consts))
    return any(map(_mentions_done, value)) if isinstance(value, tuple) else value == "done"


def run(run_or_experiment: Any, *, config: Mapping[str, Any] | None = None, **options: Any) -> Analysis:
    """As `ray.tune.run`, with keys of a job (`deadline`, `budget`, `cluster`, `search`) beside its own."""
    for name in _REFUSED:
        if options.pop(name, None):
            raise JobError(f"{name} of tune.run is not carried over; call elastune.resume(run) instead")
    for name in _IGNORED:
        options.pop(name, None)
    if options.pop("callbacks", None):
        _log.warning("callbacks of tune.run are ignored; `logging` writes to TensorBoard and MLflow")
    given = {name: options.pop(name) for name in _RUN if name in options}
    where = _places(given.pop("name", None), options.pop("storage_path", None))
    requested = options.pop("resources_per_trial", None)
    settings = TunerSettings(
        param_space={} if config is None else config,
        samples=given.pop("num_samples", 1),
        resources=_resources(run_or_experiment) if requested is None else requested,
        max_failures=options.pop("max_failures", 0),
        never_ends=_never_ends(run_or_experiment),
        **given,
    )
    return Analysis(fit(run_or_experiment, settings, {**where, **options}))


def fit(
    user: Any,
    settings: TunerSettings,
    keys: Mapping[str, Any],
    carry_out: Callable[..., RunResult] = tune,
) -> ResultGrid:
    """Translate, tune, and read the results."""
    user = _registered(user)
    translation = translate(settings)
    name = getattr(user, "__name__", "trainable")
    trained = adapted(user, translation.layout, translation.stop.rest, name)
    usual = {**this_machine(cpus=translation.keys["slot"].get("cpus", 1)), "keep_checkpoints": "all"}
    whole = {**usual, **translation.keys, **keys}
    result = carry_out(trained, **whole)
    folder = whole.get("folder", RUNS_FOLDER)
    return read_grid(result, folder=folder, layout=translation.layout, pickles=whole.get("pickles", False))


def _registered(user: Any) -> Any:
    """A name of `register_trainable` stands for what was registered."""
    if not isinstance(user, str):
        return user
    raise JobError(f"the trainable is the name {user!r}; change it to the function or class itself")


def _places(name: object, storage: object) -> dict[str, Any]:
    """The name of the run and where it is kept."""
    places: dict[str, Any] = {}
    if isinstance(name, str) and (word := re.sub(r"[^\w.-]+", "-", name).strip(".-")[:100]):
        places["name"] = word
    if isinstance(storage, str | Path):
        is_remote = _REMOTE in str(storage)
        places["storage" if is_remote else "folder"] = str(storage)
    return places


def _resources(user: Any) -> Any:
    if isinstance(user, type):
        request = getattr(user, "default_resource_request", None)
        return None if request is None else request({})
    found = getattr(user, "_resources", None)
    if inspect.isroutine(found):
        raise JobError(
            f"the resources of {seen(user)} are a function of the config; change with_resources to numbers: "
            "all slots of a run are alike"
        )
    return found


def _note(section: str, given: Any, usual: Mapping[str, Any]) -> None:
    for name, default in usual.items():
        if getattr(given, name, default) not in (default, []):
            _log.warning("%s(%s=...) is ignored by the adapter", section, name)
