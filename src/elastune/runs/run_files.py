"""The files of a run's folder beside its journal: request, plan, prediction, results, checkpoints.

Only the journal is authoritative. The other files save a replay and can be made from it again; results count
only if they carry the hash of the journal's lines. Requests of other processes are in `control.py`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from elastune.checkpoints.store import Store
from elastune.curves.source import CURVE_SUFFIXES, located
from elastune.errors import JobError
from elastune.history.result import Estimate
from elastune.history.summary import RunDigest
from elastune.job.data import data_in
from elastune.job.job import Job
from elastune.job.outputs import callbacks_in, storage_in
from elastune.journal.run_folders import RunFolder
from elastune.planning.quote import Quote
from elastune.providers.ray_cluster import FinalCheck
from elastune.runs.quotes.policy_quote import PolicyQuote

_PREDICTED = "predicted.json"
_RESULT = "result.json"
_DIGESTS = "runs.json"
_FINAL_CHECK = "farewell.json"
_BOOT_LOG = "node-"
_LAST_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIntent:
    """What was requested of a simulation beside its job, whose own seed and policy may differ."""

    seed: int
    seeds: int
    policies: tuple[str, ...]
    faults: str

    @property
    def runs(self) -> int:
        return self.seeds * len(self.policies)


def write_intent(
    folder: RunFolder, job: Job, intent: RunIntent, quote: Quote | None, predicted: Mapping[str, Estimate]
) -> None:
    """Before the first run: the request, the plan, and the prediction for each policy."""
    _write_job(folder, job)
    _write(folder.simulation, asdict(intent))
    if quote is not None:
        _write(folder.plan, quote.to_dict())
    _write(folder.report / _PREDICTED, {policy: asdict(each) for policy, each in predicted.items()})


def write_prepared(
    folder: RunFolder, job: Job, quote: Quote | PolicyQuote, policy: str, predicted: Estimate
) -> None:
    """Before a real run: the request, the plan and the prediction."""
    _write_job(folder, job)
    _write(folder.plan, quote.to_dict())
    _write(folder.report / _PREDICTED, {policy: asdict(predicted)})


def _write_job(folder: RunFolder, job: Job) -> None:
    text = yaml.safe_dump(_with_absolute_paths(job.to_dict()), sort_keys=False, allow_unicode=True)
    _write(folder.job, text)


def write_real_result(folder: RunFolder, result: Mapping[str, object]) -> None:
    """After a real run: what `elastune run --json` prints."""
    _write(folder.report / _RESULT, result)


def write_final_check(folder: RunFolder, final_check: FinalCheck | None) -> None:
    """After all nodes were released. None: an earlier check is no longer valid."""
    if final_check is None:
        (folder.report / _FINAL_CHECK).unlink(missing_ok=True)
    else:
        _write(folder.report / _FINAL_CHECK, asdict(final_check))


def read_final_check(folder: RunFolder) -> FinalCheck | None:
    match _read(folder.report / _FINAL_CHECK):
        case {"left": [*left], "at": str(at), "how": str(how)}:
            return FinalCheck(left=tuple(map(str, left)), at=at, how=how)
        case _:
            return None


def write_boot_log(folder: RunFolder, node: str, text: str) -> str:
    """Keep the log of a node that never came up; returns what to say about it."""
    path = folder.logs / f"{_BOOT_LOG}{node}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n" if text else "", encoding="utf-8")
    return _describe_boot(path)


def read_boot_logs(folder: RunFolder) -> list[str]:
    """What to say about the nodes that never came up."""
    return [_describe_boot(path) for path in sorted(folder.logs.glob(f"{_BOOT_LOG}*.log"))]


def _describe_boot(path: Path) -> str:
    node = path.stem.removeprefix(_BOOT_LOG)
    lines = path.read_text(encoding="utf-8").splitlines()[-_LAST_LINES:]
    if not lines:
        return f"node {node} never came up and wrote nothing; the machine may be too busy, or short of memory"
    return "\n    ".join([f"node {node} never came up; the last lines of its log, {path}:", *lines])


def write_result(folder: RunFolder, result: Mapping[str, object], digests: Iterable[RunDigest]) -> None:
    """After the last run: what `elastune simulate --json` prints, and what a summary needs of each run."""
    _write(folder.report / _RESULT, result)
    _write(folder.report / _DIGESTS, {"runs": [asdict(digest) for digest in digests]})


def read_intent(folder: RunFolder) -> RunIntent | None:
    """None: the runs are not simulated, or an older version wrote the folder."""
    match _read(folder.simulation):
        case {
            "seed": int(seed),
            "seeds": int(seeds),
            "policies": [str(), *_] as policies,
            "faults": str(faults),
        }:
            return RunIntent(seed=seed, seeds=seeds, policies=tuple(map(str, policies)), faults=faults)
        case _:
            return None


def repeating(folder: RunFolder, intent: RunIntent) -> str:
    """The command that repeats a simulation."""
    words = ["elastune", "simulate", str(folder.job), "--seed", f"{intent.seed}"]
    words += ["--seeds", f"{intent.seeds}"] if intent.seeds > 1 else []
    words += ["--policy", ",".join(intent.policies)]
    words += ["--faults", intent.faults] if intent.faults != "none" else []
    return shlex.join(words)


def read_digests(folder: RunFolder) -> dict[str, RunDigest]:
    """By the hash of the journal's lines."""
    runs = _read(folder.report / _DIGESTS).get("runs")
    digests = [_digest(run) for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
    return {digest.journal_sha256: digest for digest in digests if digest is not None}


def _digest(data: dict[str, object]) -> RunDigest | None:
    """None: another version wrote it."""
    match data:
        case {
            "run": str(),
            "policy": str(),
            "seed": int(),
            "journal_sha256": str(),
            "actual": {"jct_seconds": int() | float() as jct_seconds, "cost": int() | float() as cost},
            "best": int() | float() | None,
            "ending": str(),
            "topics": list(topics),
            "trials": int(),
            "failed_trials": int(),
        }:
            values: dict[str, Any] = {field.name: data[field.name] for field in fields(RunDigest)}
            actual = Estimate(jct_seconds=jct_seconds, cost=cost)
            return RunDigest(**{**values, "actual": actual, "topics": tuple(map(str, topics))})
        case _:
            return None


def read_predicted(folder: RunFolder, policy: str) -> Estimate | None:
    return _estimate(_read(folder.report / _PREDICTED).get(policy))


def read_expected(folder: RunFolder) -> Estimate | None:
    """What the plan of a run expects; the means of the runs simulated for it, if there were any."""
    plan = _read(folder.plan)
    return _estimate(plan.get("replanned", plan))


def _estimate(data: object) -> Estimate | None:
    match data:
        case {"jct_seconds": int() | float() as jct_seconds, "cost": int() | float() as cost}:
            return Estimate(jct_seconds=jct_seconds, cost=cost)
        case _:
            return None


def read_costs(folder: RunFolder) -> dict[str, float]:
    """The costs of runs, by the hash of their journals."""
    result = _read(folder.report / _RESULT)
    runs = result.get("runs", [result])
    costs: dict[str, float] = {}
    for run in runs if isinstance(runs, Sequence) else ():
        match run:
            case {"journal_sha256": str(sha256), "actual": {"cost": int() | float() as cost}}:
                costs[sha256] = cost
    return costs


def _with_absolute_paths(job: dict[str, object]) -> dict[str, object]:
    """The paths in a job are relative to the working folder, not to the run's folder."""
    if "storage" in job:
        job = {**job, "storage": storage_in(Path.cwd(), job["storage"])}
    if "data" in job:
        job = {**job, "data": data_in(Path.cwd(), job["data"])}
    if "callbacks" in job:
        job = {**job, "callbacks": callbacks_in(Path.cwd(), job["callbacks"])}
    trainable = job.get("trainable")
    if isinstance(trainable, Mapping):
        curves = Path(str(trainable["curves"])).absolute()
        return {**job, "trainable": {**trainable, "curves": str(curves)}}
    if isinstance(trainable, str) and (".py:" in trainable or trainable.endswith(CURVE_SUFFIXES)):
        return {**job, "trainable": located(trainable, Path.cwd())}
    return job


def _write(path: Path, data: str | Mapping[str, object]) -> None:
    """Text as it is, other data as JSON."""
    text = data if isinstance(data, str) else json.dumps(data, indent=2) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror}; choose another root for runs") from error


def _read(path: Path) -> Mapping[str, object]:
    """Empty if the file is missing or not valid. A pipe is no file: reading it would wait for ever."""
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, Mapping) else {}


def open_store(job: Job, folder: RunFolder) -> Store:
    """In the run's folder, or in a folder of the same name under the job's `storage`."""
    if job.storage is None:
        return Store.open(folder.checkpoints)
    return Store.open(f"{job.storage.rstrip('/')}/{folder.path.name}")


def refuse_unshared(job: Job, folder: RunFolder) -> None:
    """Nodes on other machines do not have the run's folder."""
    if job.storage is None:
        raise JobError(
            "storage is missing: the nodes are on other machines, which cannot write checkpoints to the "
            f"run's folder {folder.path}; expected storage: s3://bucket/prefix, or a folder that all "
            "machines share"
        )
