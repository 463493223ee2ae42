"""Measures how a training scales, on the machines it will run on."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from elastune.errors import ExecutionError, JobError
from elastune.history.measured import Measurements
from elastune.history.result import Estimate
from elastune.job.job import Job
from elastune.job.measurement_files import read_measurements
from elastune.model.billing import charged_s, ingress_usd
from elastune.model.profile import Profile
from elastune.policies.profile import ProfilingOptions
from elastune.runs.code_bundle import CodeShipment
from elastune.runs.prepared_run import PreparedRun, prepare_run, spends_money
from elastune.setup.run_setup import MEASURING, with_price

_STEPS_AT_MOST = 10
_VERSIONS = ("torch", "ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to measure. `most_s` limits the total time, which the steps share."""

    configurations: int = 2
    iterations: int = 6
    boots: int = 4
    most_s: float = 300.0

    def to_options(self) -> ProfilingOptions:
        return ProfilingOptions(
            configurations=self.configurations,
            iterations=self.iterations,
            step_s=self.most_s / _STEPS_AT_MOST,
            boots=self.boots,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    measurements: Measurements
    profile: Profile
    path: Path
    key: str
    took: Estimate

    def to_dict(self) -> dict[str, object]:
        measurements = self.measurements.to_dict()
        return {"path": str(self.path), "key": self.key, "took": asdict(self.took), **measurements}


def prepare_profiling(job: Job, effort: Effort, *, seed: int, address: str | None) -> PreparedRun:
    """A run that measures, within the job's limits and the effort."""
    deadline = effort.most_s if job.deadline is None else min(effort.most_s, job.deadline)
    bounds: dict[str, object] = {"deadline": deadline, "may_exceed": None, "stop_when": None}
    if spends_money(job) and address is None:
        bounds["budget"] = most_usd(job, effort)
    bounded = job.model_copy(update={**bounds, "start_configurations": ()})
    prepared = prepare_run(bounded, policy=MEASURING, seed=seed, address=address)
    return replace(prepared, setup=replace(prepared.setup, measuring=effort.to_options()))


def most_usd(job: Job, effort: Effort) -> float:
    """An upper bound on the cost of measuring: all nodes, at the highest price, for the whole time."""
    terms = with_price(job).cluster.to_terms()
    seconds = charged_s(terms, effort.most_s) + terms.shutdown_s
    usd = terms.max_nodes * (terms.dearest_usd_per_s * seconds + ingress_usd(terms, 1))
    return usd if job.budget is None else min(usd, job.budget)


def keep(measurements: Measurements, path: Path, key: str) -> Profile:
    """Write the measurements, and read them as the planner will."""
    if not measurements.iterations:
        raise ExecutionError(
            "nothing could be measured: no iteration finished; look at the logs of the trials, or allow "
            "more time"
        )
    data = {**measurements.to_dict(), "key": key}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror}") from error
    return read_measurements(path)


def key_of(job: Job, shipment: CodeShipment) -> str:
    """A hash of all that a measurement depends on: code, space, slot, node and libraries."""
    plain = job.to_dict()
    cluster = plain["cluster"]
    about = {
        "trainable": shipment.script.source or _code_of(shipment) or shipment.script.name,
        "space": plain.get("space"),
        "slot": plain["slot"],
        "node": {name: cluster.get(name) for name in ("slots_per_node", "provider")}
        if isinstance(cluster, dict)
        else None,
        "versions": {name: _version(name) for name in _VERSIONS},
    }
    if job.cluster.options:
        about["kind"] = job.cluster.options.get("instance_type", job.cluster.options)
    if plain.get("data") is not None:
        about["data"] = plain["data"]
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
