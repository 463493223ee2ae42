"""Ray Tune's side, with its best settings: each function carries out one `fit` and measures it.

Nothing is logged, printed or checkpointed that is not needed, and the state of the experiment is not written
in between. What is left to choose (class or function, actors used again or not, how many trials wait for
their actors) is an argument: `python -m benchmarks.runtime` tries several and keeps the best.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import ray  # noqa: F401  before ray.tune
from ray import tune  # type: ignore[import-not-found,unused-ignore]
from ray.tune.schedulers import ResourceChangingScheduler  # type: ignore[import-not-found,unused-ignore]

from benchmarks.runtime.pace import Numbers, pace
from benchmarks.runtime.peer_trainables import Tick, tick

_STEP_S = 0.01
_ITERATIONS_PER_GANG = 5
SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
    "TUNE_WARN_THRESHOLD_S": "1000",
}


class Watch(tune.Callback):  # type: ignore[misc,unused-ignore]
    """Notes when results come in and when trials end: about a microsecond each."""

    def __init__(self) -> None:
        self.results: list[float] = []
        self.ends: list[float] = []
        self.rows: list[float] = []

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **_: Any) -> None:
        self.results.append(time.perf_counter())
        self.rows.append(result["at"])

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
        self.ends.append(time.perf_counter())


def trials(trials: int, kind: str, reuse: bool, pending: int) -> Numbers:
    _set(pending=pending)
    return {"wall_s": _fit(_trainable(kind), trials, iterations=1, reuse=reuse)}


def long(trials: int, part: int, kind: str, reuse: bool, pending: int) -> Numbers:
    _set(pending=pending)
    watch = Watch()
    _fit(_trainable(kind), trials, iterations=1, reuse=reuse, watch=watch)
    return pace(watch.ends, part)


def reports(trials: int, iterations: int, kind: str, length: int, seconds: int) -> Numbers:
    """Rows per second at the driver, from the first to the last.

    Tune 2.60 hands the two limits of a buffer over in the wrong order: rows are set as seconds.
    """
    _set(pending=trials, TUNE_RESULT_BUFFER_LENGTH=seconds, TUNE_RESULT_BUFFER_MIN_TIME_S=length)
    watch = Watch()
    try:
        with tempfile.TemporaryDirectory() as gate:
            more = {"gate": (gate, trials)}
            _fit(_trainable(kind), trials, iterations=iterations, reuse=False, watch=watch, more=more)
    finally:
        for name in ("TUNE_RESULT_BUFFER_LENGTH", "TUNE_RESULT_BUFFER_MIN_TIME_S"):
            del os.environ[name]
    rows, took_s = len(watch.results), watch.results[-1] - watch.results[0]
    return {"per_s": rows / took_s, "rows": rows, "seconds": took_s}


def resizes(sizes: list[int], gangs: int) -> Numbers:
    """From the end of the last iteration before a resize to that of the first one after it."""
    _set(pending=1)
    changed: list[int] = []

    def allocate(_: Any, __: Any, result: dict[str, Any], ___: Any) -> Any:
        done = result["training_iteration"]
        if done % _ITERATIONS_PER_GANG or len(changed) >= gangs - 1:
            return None
        changed.append(done)
        return tune.PlacementGroupFactory([{"CPU": sizes[len(changed) % len(sizes)]}])

    watch = Watch()
    scheduler = ResourceChangingScheduler(resources_allocation_function=allocate)
    iterations, more = gangs * _ITERATIONS_PER_GANG, {"sleep": _STEP_S}
    _fit(Tick, 1, iterations=iterations, reuse=False, watch=watch, scheduler=scheduler, more=more)
    gaps = [watch.rows[done] - watch.rows[done - 1] for done in changed]
    return {
        "gap_s": statistics.median(gaps),
        "first_gap_s": gaps[0],
        "worst_gap_s": max(gaps[1:]),
        "resizes": len(gaps),
    }


def _trainable(kind: str) -> Any:
    return {"class": Tick, "function": tick}[kind]


def _set(*, pending: int, **more: int) -> None:
    os.environ.update(SETTINGS)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(pending)
    os.environ.update({name: str(value) for name, value in more.items()})


def _fit(
    trainable: Any,
    samples: int,
    *,
    iterations: int,
    reuse: bool,
    watch: Watch | None = None,
    scheduler: Any = None,
    more: Mapping[str, object] | None = None,
) -> float:
    with tempfile.TemporaryDirectory() as folder, _in_silence():
        start = time.perf_counter()
        tuner = tune.Tuner(
            trainable,
            param_space={"x": tune.uniform(0.0, 1.0), "iterations": iterations, **(more or {})},
            tune_config=tune.TuneConfig(
                num_samples=samples, reuse_actors=reuse, metric="score", mode="max", scheduler=scheduler
            ),
            run_config=tune.RunConfig(
                verbose=0,
                storage_path=folder,
                callbacks=[] if watch is None else [watch],
                # A class would be checkpointed at the end, and its results not be buffered because of that.
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        )
        results = tuner.fit()
        wall_s = time.perf_counter() - start
        if len(results) != samples or results.errors:
            raise RuntimeError(f"{len(results)} of {samples} trials, errors {results.errors}")
    return wall_s


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
    """Its tables are printed at any verbosity."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
