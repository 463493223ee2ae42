"""Measures how a training scales, on the machines it will run on."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from elastune.errors import ExecutionError, JobError
from elastune.history.measured import Measurements
from elastune.history.result import Estimate
from elastune.job.job import Job
from elastune.job.measurement_files import read_measurements
from elastune.model.billing import charged_s, ingress_usd
from elastune.model.configuration import Configuration
from elastune.model.profile import Profile
from elastune.model.speeds import Influence, fit_speeds
from elastune.policies.profile import ProfilingOptions, doubling
from elastune.runs.code_bundle import CodeShipment
from elastune.runs.prepared_run import PreparedRun, prepare_run, spends_money
from elastune.setup.run_setup import MEASURING, with_price
from elastune.space.profiling_sample import draw, space_filling
from elastune.space.sampler import Sampler

# Libraries whose versions change the speed of a training.
_VERSIONS = ("torch", "ray", "numpy", "jax", "tensorflow", "xgboost", "scikit-learn", "elastune")
# Changes when files of measurements mean something else.
_FORMAT = 2
# So many configurations stand for all that a run may draw.
_DRAWN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to measure. `most_s` limits the total time, which the steps share; no larger number of slots
    is begun that would exceed `most_usd`."""

    configurations: int = 6
    iterations: int = 6
    boots: int = 4
    most_s: float = 300.0
    most_usd: float | None = None

    def to_options(self) -> ProfilingOptions:
        return ProfilingOptions(
            configurations=self.configurations,
            iterations=self.iterations,
            most_s=self.most_s,
            most_usd=self.most_usd,
            boots=self.boots,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    measurements: Measurements
    profile: Profile
    path: Path
    key: str
    took: Estimate

    def influences(self) -> tuple[Influence, ...]:
        """What each hyperparameter does to the speed, as far as the measured configurations tell."""
        model = fit_speeds(self.profile.speeds)
        return () if model is None else model.influences()

    def to_dict(self) -> dict[str, object]:
        return {
            "path": str(self.path),
            "key": self.key,
            "took": asdict(self.took),
            **self.measurements.to_dict(),
            "influences": [asdict(each) for each in self.influences()],
        }


def prepare_profiling(job: Job, effort: Effort, *, seed: int, address: str | None) -> PreparedRun:
    """A run that measures, within the job's limits and the effort."""
    deadline = effort.most_s if job.deadline is None else min(effort.most_s, job.deadline)
    bounds: dict[str, object] = {"deadline": deadline, "may_exceed": None, "stop_when": None}
    if spends_money(job) and address is None:
        bounds["budget"] = most_usd(job, effort)
    chosen = choose_configurations(job, effort)
    bounded = job.model_copy(update={**bounds, "start_configurations": chosen})
    prepared = prepare_run(bounded, policy=MEASURING, seed=seed, address=address)
    # Where there is only one configuration, a second trial of it shows how much its speed varies.
    options = replace(effort, configurations=max(len(chosen), min(2, effort.configurations))).to_options()
    return replace(prepared, setup=replace(prepared.setup, measuring=options))


def choose_configurations(job: Job, effort: Effort) -> tuple[Configuration, ...]:
    """Those of the job's own sampler that differ most, the job's start configurations first."""
    tuning = job.unopened_tuning()
    starts = tuning.make_sampler(job.seed, learns=False)
    first = [each for at in range(len(tuning.starts)) if (each := starts.ask(at)) is not None]
    trials = getattr(job.search, "trials", None)
    count = min(effort.configurations, trials or effort.configurations)
    return space_filling(_sampler_of(job), count, first)


def _sampler_of(job: Job) -> Sampler:
    tuning = replace(job.unopened_tuning(), starts=())
    return tuning.make_sampler(job.seed, learns=False)


def as_drawn(job: Job, measurements: Measurements) -> Measurements:
    """The measurements, for the configurations that a run of the job will draw."""
    return measurements.as_drawn(draw(_sampler_of(job), _DRAWN))


def most_usd(job: Job, effort: Effort) -> float:
    """An upper bound on the cost of measuring: all nodes, at the highest price, for the whole time."""
    terms = with_price(job).cluster.to_terms()
    seconds = charged_s(terms, effort.most_s) + terms.shutdown_s
    usd = terms.max_nodes * (terms.dearest_usd_per_s * seconds + ingress_usd(terms, 1))
    return usd if job.budget is None else min(usd, job.budget)


def keep(measurements: Measurements, path: Path, key: str) -> Profile:
    """Write the measurements, and read them as the planner will, before they get their final name."""
    if not measurements.iterations:
        raise ExecutionError(
            "nothing could be measured: no iteration finished; look at the logs of the trials, or allow "
            "more time"
        )
    data = {**measurements.to_dict(), "key": key}
    unchecked = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unchecked.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        profile = read_measurements(unchecked)
        unchecked.replace(path)
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror}") from error
    except JobError as error:
        raise ExecutionError(f"the measurements make no profile and are not kept: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            unchecked.unlink(missing_ok=True)
    return profile


def key_of(job: Job, shipment: CodeShipment, address: str | None = None) -> str:
    """A hash of all that a measurement depends on: code, data, space, slots, nodes, storage and libraries."""
    plain = job.to_dict()
    cluster, search = job.cluster, job.search
    all_slots = cluster.slots_per_node * cluster.most_nodes
    limits = (search.max_slots_per_trial, shipment.most_slots)
    most_slots = min([all_slots, *(limit for limit in limits if limit is not None)])
    about = {
        "format": _FORMAT,
        "trainable": shipment.script.source or _code_of(shipment) or shipment.script.name,
        **{name: plain.get(name) for name in ("space", "slot", "data", "execution", "storage", "pickles")},
        "nodes": {
            "provider": cluster.provider if address is None else address,
            "machine": platform.node() if cluster.provider == "local" and address is None else None,
            "options": cluster.options,
            "slots_per_node": cluster.slots_per_node,
        },
        "sizes": doubling(search.min_slots_per_trial, most_slots),
        "versions": {name: _version(name) for name in _VERSIONS},
        "python": platform.python_version_tuple()[:2],
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _code_of(shipment: CodeShipment) -> str | None:
    """The source, because the pickle of a class or function in a script differs between processes."""
    with contextlib.suppress(OSError, TypeError):
        return inspect.getsource(shipment.recipe.user)
    return None if shipment.script.pickled is None else repr(shipment.script.pickled)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
