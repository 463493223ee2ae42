"""From a `Tuner` to the keys of a job: what its search, its scheduler and its stop condition become.

Without a search algorithm, Ray Tune's own generator draws the configurations, all before the run: the same
seed gives the same ones as there. What cannot be carried over raises `JobError` with the line to change; what
makes no difference to the result is noted in a warning.
"""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elastune.adapters.ray_tune.ray_trial import Stop
from elastune.adapters.ray_tune.spaces import ConfigLayout, FlatConfig, draw
from elastune.errors import JobError
from elastune.space.space import Space
from elastune.wording import seen

_log = logging.getLogger("elastune")
# For a function that ends by itself after a number of reports that it does not say.
UNKNOWN_ITERATIONS = 1_000
_ITERATION = "training_iteration"
# Search algorithms of Ray Tune by the sampler that is nearest to them.
_SAMPLERS = {"OptunaSearch": "tpe", "HyperOptSearch": "tpe", "TuneBOHB": "tpe", "BayesOptSearch": "gp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """Of a trial: its last iteration, and what else ends it; of the run: its time."""

    iterations: int | None = None
    rest: Stop = None
    seconds: float | None = None

    @classmethod
    def of(cls, stop: Any) -> StopRule:
        if stop is None:
            return cls()
        if isinstance(stop, Mapping):
            rest = {name: value for name, value in stop.items() if name != _ITERATION}
            last = stop.get(_ITERATION)
            return cls(iterations=None if last is None else math.ceil(last), rest=rest or None)
        match type(stop).__name__:
            case "MaximumIterationStopper":
                return cls(iterations=stop._max_iter)  # noqa: SLF001  Ray has no public name for it
            case "TimeoutStopper":
                return cls(seconds=float(stop._timeout_seconds))  # noqa: SLF001
            case "FunctionStopper":
                return cls(rest=stop._fn)  # noqa: SLF001
            case kind if hasattr(stop, "stop_all"):
                raise JobError(
                    f"stop is {kind}, which compares results of its own process only; change it to a dict "
                    "such as stop={'accuracy': 0.99}, or to a function stop(trial_id, result)"
                )
        return cls(rest=stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The keys of the job that come from a `Tuner`, and what its trainable needs."""

    layout: ConfigLayout
    keys: Mapping[str, Any]
    stop: StopRule


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerSettings:
    """What `Tuner` and `run` are told alike."""

    param_space: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None
    mode: str | None = None
    samples: int = 1
    search_alg: Any = None
    scheduler: Any = None
    stop: Any = None
    time_budget_s: float | datetime.timedelta | None = None
    resources: Any = None
    max_failures: int = 0
    never_ends: bool = False
    """A class: it trains until something stops it."""


def translate(settings: TunerSettings) -> Translation:
    stop = StopRule.of(settings.stop)
    searcher = _unwrapped(settings.search_alg)
    metric = settings.metric or _told(settings.scheduler, "metric") or _told(searcher, "metric")
    mode = settings.mode or _told(settings.scheduler, "mode") or _told(searcher, "mode")
    if not isinstance(metric, str):
        raise JobError(
            "the metric is missing; change TuneConfig(...) to TuneConfig(metric='accuracy', mode='max', ...) "
            "with a metric that the trainable reports"
        )
    layout = ConfigLayout.of(settings.param_space)
    starts, space, sampler = _configurations(settings, searcher, layout)
    trials = len(starts) if sampler is None and starts else settings.samples
    search = _search(settings, stop, None if trials < 0 else trials)
    keys: dict[str, Any] = {
        "space": space,
        "metric": metric,
        "search": search if sampler is None else {**search, "sampler": sampler},
        "start_configurations": starts,
        "slot": _slot(settings.resources),
        "retries": 1_000 if settings.max_failures < 0 else settings.max_failures,
    }
    if mode is not None:
        keys["mode"] = mode
    if (seconds := _seconds(settings.time_budget_s, stop)) is not None:
        keys["deadline"] = seconds
    return Translation(layout=layout, keys=keys, stop=stop)


def _configurations(
    settings: TunerSettings, searcher: Any, layout: ConfigLayout
) -> tuple[list[FlatConfig], Space, str | None]:
    """The configurations that are known before the run, their space, and what draws others."""
    kind = type(searcher).__name__
    if searcher is not None and kind != "BasicVariantGenerator":
        if kind not in _SAMPLERS:
            raise JobError(
                f"search_alg is {kind}, which is not carried over; remove search_alg=..., or change it to "
                "OptunaSearch(...), which becomes search.sampler: tpe"
            )
        points = getattr(searcher, "_points_to_evaluate", None) or ()
        if getattr(searcher, "_space", None):
            raise JobError(f"{kind} has a space of its own; move it to the param_space of the Tuner")
        return [dict(point) for point in points], layout.space(settings.param_space), _SAMPLERS[kind]
    if settings.samples < 0:
        return [], layout.space(settings.param_space), None
    drawn = draw(
        settings.param_space,
        samples=settings.samples,
        points=getattr(searcher, "_points_to_evaluate", ()),
        constant_grid=getattr(searcher, "_constant_grid_search", False),
        random_state=getattr(searcher, "_random_state", None),
    )
    starts = [layout.flat(each) for each in drawn]
    return starts, layout.space(settings.param_space, starts), None


def _unwrapped(search_alg: Any) -> Any:
    while type(search_alg).__name__ == "ConcurrencyLimiter":
        _log.warning("ConcurrencyLimiter is ignored: as many trials train at once as there are slots")
        search_alg = search_alg.searcher
    if isinstance(search_alg, str):
        from ray.tune.search import create_searcher  # noqa: PLC0415  slow

        return create_searcher(search_alg)
    return search_alg


def _told(part: Any, name: str) -> Any:
    """The metric or mode of a scheduler or search algorithm."""
    return getattr(part, f"_{name}", None)


def _search(settings: TunerSettings, stop: StopRule, trials: int | None) -> dict[str, Any]:
    scheduler = settings.scheduler
    if isinstance(scheduler, str):
        from ray.tune.schedulers import create_scheduler  # noqa: PLC0415  slow

        scheduler = create_scheduler(scheduler)
    search: dict[str, Any] = {} if trials is None else {"trials": trials}
    kind = type(scheduler).__name__
    if scheduler is None or kind == "FIFOScheduler":
        return {"algorithm": "random", **search, "max_iterations": _last(settings, stop)}
    if kind in ("AsyncHyperBandScheduler", "HyperBandScheduler", "PopulationBasedTraining"):
        _check_time(scheduler, kind)
    if kind == "AsyncHyperBandScheduler":
        first = min(level for level, _ in scheduler._brackets[0]._rungs)  # noqa: SLF001
        return {
            "algorithm": "asha",
            **search,
            "min_iterations": max(1, math.ceil(first)),
            "max_iterations": min(scheduler._max_t, stop.iterations or scheduler._max_t),  # noqa: SLF001
            "eta": scheduler._reduction_factor,  # noqa: SLF001
        }
    if kind == "HyperBandScheduler":
        last = scheduler._max_t_attr  # noqa: SLF001
        eta = scheduler._eta  # noqa: SLF001
        return {"algorithm": "sha", **search, "max_iterations": last, "eta": eta}
    if kind == "PopulationBasedTraining":
        return _population(settings, stop, scheduler, search)
    raise JobError(
        f"scheduler is {kind}, which is not carried over; remove scheduler=..., or change it to "
        "ASHAScheduler(max_t=...): which trials go on is decided by Elastune (`search` of fit)"
    )


def _check_time(scheduler: Any, kind: str) -> None:
    measure = scheduler._time_attr  # noqa: SLF001
    if measure != _ITERATION:
        raise JobError(
            f"{kind} counts {measure}; change it to time_attr='{_ITERATION}', and its numbers to reports"
        )


def _population(
    settings: TunerSettings, stop: StopRule, scheduler: Any, search: Mapping[str, Any]
) -> dict[str, Any]:
    mutated = {name.split("/")[0] for name in scheduler._hyperparam_mutations}  # noqa: SLF001
    fixed = [
        path[0] for path in ConfigLayout.of(settings.param_space).paths.values() if path[0] not in mutated
    ]
    if fixed:
        raise JobError(
            f"param_space has {fixed[0]}, which hyperparam_mutations does not have; give it a fixed value, "
            "or add it there: population based training changes every range of the space"
        )
    missing = [name for name in mutated if name not in settings.param_space]
    if missing:
        raise JobError(f"hyperparam_mutations has {missing[0]}; give it a range in param_space as well")
    return {
        "algorithm": "pbt",
        **search,
        "interval": max(1, round(scheduler._perturbation_interval)),  # noqa: SLF001
        "quantile": scheduler._quantile_fraction or 0.25,  # noqa: SLF001
        "max_iterations": _last(settings, stop),
    }


def _last(settings: TunerSettings, stop: StopRule) -> int:
    if stop.iterations is not None:
        return stop.iterations
    if settings.never_ends and stop.rest is None:
        raise JobError(
            f"stop is missing, and a class trains for ever; add RunConfig(stop={{'{_ITERATION}': 10}}), or "
            "let step return 'done': True at the end"
        )
    _log.warning(
        "how many reports a trial makes is not known; the quote is for %s. "
        "RunConfig(stop={'%s': n}) gives a quote for n",
        f"{UNKNOWN_ITERATIONS:,}",
        _ITERATION,
    )
    return UNKNOWN_ITERATIONS


def _seconds(budget: Any, stop: StopRule) -> float | None:
    given = budget.total_seconds() if isinstance(budget, datetime.timedelta) else budget
    limits = [float(each) for each in (given, stop.seconds) if each is not None]
    return min(limits, default=None)


def _slot(resources: Any) -> dict[str, int]:
    """Of one trial, from `with_resources` or `resources_per_trial`."""
    if resources is None:
        return {"cpus": 1}
    required = getattr(resources, "required_resources", resources)
    if not isinstance(required, Mapping):
        raise JobError(
            f"the resources of a trial are {seen(resources)}; change them to numbers, such as "
            "tune.with_resources(train, {'cpu': 2})"
        )
    by_name = {str(name).lower(): float(number) for name, number in required.items() if number}
    unknown = [name for name in by_name if name not in ("cpu", "gpu")]
    gpus = by_name.get("gpu", 0.0)
    if unknown or gpus != int(gpus):
        raise JobError(
            f"the resources of a trial are {dict(required)}; change them to whole GPUs, or CPUs alone, "
            "such as {'gpu': 1} or {'cpu': 2}"
        )
    return {"gpus": int(gpus)} if gpus else {"cpus": max(1, math.ceil(by_name.get("cpu", 1.0)))}
