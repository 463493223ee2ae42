"""What a run's folder holds beside its journal: what was asked for, planned and predicted, what came of it.

Only the journal is the truth. The other files can be made from it again; they spare a replay, and are
believed only where they bear the hash of the journal's lines.

How another process asks a run to stop: by a file in its folder.

Where the checkpoints of a run lie.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from elastune.checkpoints.store import Store
from elastune.curves.source import CURVE_SUFFIXES, located
from elastune.errors import ExecutionError, JobError
from elastune.history.result import Estimate
from elastune.history.summary import RunDigest
from elastune.job.data import data_in
from elastune.job.job import Job
from elastune.job.outputs import storage_in
from elastune.journal.run_folders import RunFolder
from elastune.planning.quote import Quote
from elastune.providers.ray_cluster import FinalCheck
from elastune.runs.policy_quote import PolicyQuote

_PREDICTED = "predicted.json"
_RESULT = "result.json"
_DIGESTS = "runs.json"
_FAREWELL = "farewell.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIntent:
    """What a simulation was asked for beside its job, whose own seed and policy may be others."""

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
    """Before the first run: what was asked for, planned, and predicted for each policy."""
    _write_job(folder, job)
    _write(folder.simulation, _json(asdict(intent)))
    if quote is not None:
        _write(folder.plan, _json(quote.to_dict()))
    estimates = {
        policy: {"jct_seconds": each.jct_seconds, "cost": each.cost} for policy, each in predicted.items()
    }
    _write(folder.report / _PREDICTED, _json(estimates))


def write_prepared(
    folder: RunFolder, job: Job, quote: Quote | PolicyQuote, policy: str, predicted: Estimate
) -> None:
    """Before a real run: what was asked for, planned and predicted."""
    _write_job(folder, job)
    _write(folder.plan, _json(quote.to_dict()))
    _write(folder.report / _PREDICTED, _json({policy: asdict(predicted)}))


def _write_job(folder: RunFolder, job: Job) -> None:
    text = yaml.safe_dump(_seen_from_anywhere(job.to_dict()), sort_keys=False, allow_unicode=True)
    _write(folder.job, text)


def write_real_result(folder: RunFolder, result: Mapping[str, object]) -> None:
    """After a real run: what `elastune run --json` prints."""
    _write(folder.report / _RESULT, _json(result))


def write_final_check(folder: RunFolder, final_check: FinalCheck | None) -> None:
    """When all was given back: what a last look found. None: what an earlier one found holds no more."""
    if final_check is None:
        (folder.report / _FAREWELL).unlink(missing_ok=True)
    else:
        _write(folder.report / _FAREWELL, _json(asdict(final_check)))


def read_final_check(folder: RunFolder) -> FinalCheck | None:
    """None: nobody looked."""
    match _read(folder.report / _FAREWELL):
        case {"left": [*left], "at": str(at), "how": str(how)}:
            return FinalCheck(left=tuple(map(str, left)), at=at, how=how)
        case _:
            return None


def write_result(folder: RunFolder, result: Mapping[str, object], digests: Iterable[RunDigest]) -> None:
    """After the last run: what `elastune simulate --json` prints, and what a summary needs of each run."""
    _write(folder.report / _RESULT, _json(result))
    _write(folder.report / _DIGESTS, _json({"runs": [asdict(digest) for digest in digests]}))


def read_intent(folder: RunFolder) -> RunIntent | None:
    """None: the runs are no simulation, or an older version made the folder."""
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
    """The command that does the same again."""
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
            "run": str(run),
            "policy": str(policy),
            "seed": int(seed),
            "journal_sha256": str(journal_sha256),
            "actual": {"jct_seconds": int() | float() as jct_seconds, "cost": int() | float() as cost},
            "best": int() | float() | None as best,
            "ending": str(ending),
            "topics": list(topics),
            "trials": int(trials),
            "failed_trials": int(failed_trials),
        }:
            return RunDigest(
                run=run,
                policy=policy,
                seed=seed,
                journal_sha256=journal_sha256,
                actual=Estimate(jct_seconds=jct_seconds, cost=cost),
                best=best,
                ending=ending,
                topics=tuple(map(str, topics)),
                trials=trials,
                failed_trials=failed_trials,
            )
        case _:
            return None


def read_predicted(folder: RunFolder, policy: str) -> Estimate | None:
    found = _read(folder.report / _PREDICTED).get(policy)
    if not isinstance(found, Mapping):
        return None
    jct_seconds, cost = found.get("jct_seconds"), found.get("cost")
    if not isinstance(jct_seconds, int | float) or not isinstance(cost, int | float):
        return None
    return Estimate(jct_seconds=jct_seconds, cost=cost)


def read_costs(folder: RunFolder) -> dict[str, float]:
    """What runs cost, by the hash of their journals."""
    result = _read(folder.report / _RESULT)
    runs = result.get("runs", [result])
    costs: dict[str, float] = {}
    for run in runs if isinstance(runs, Sequence) else ():
        sha256 = run.get("journal_sha256") if isinstance(run, Mapping) else None
        actual = run.get("actual") if isinstance(run, Mapping) else None
        cost = actual.get("cost") if isinstance(actual, Mapping) else None
        if isinstance(sha256, str) and isinstance(cost, int | float):
            costs[sha256] = cost
    return costs


def _seen_from_anywhere(job: dict[str, object]) -> dict[str, object]:
    """The paths in a job are as seen from the working folder, and the run's folder is another one."""
    if "storage" in job:
        job = {**job, "storage": storage_in(Path.cwd(), job["storage"])}
    if "data" in job:
        job = {**job, "data": data_in(Path.cwd(), job["data"])}
    trainable = job.get("trainable")
    if isinstance(trainable, Mapping):
        curves = Path(str(trainable["curves"])).absolute()
        return {**job, "trainable": {**trainable, "curves": str(curves)}}
    if isinstance(trainable, str) and (".py:" in trainable or trainable.endswith(CURVE_SUFFIXES)):
        return {**job, "trainable": located(trainable, Path.cwd())}
    return job


def _json(data: Mapping[str, object]) -> str:
    return json.dumps(data, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror}; choose another root for runs") from error


def _read(path: Path) -> Mapping[str, object]:
    """Empty if there is no such file, or if it is not what was written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, Mapping) else {}


_NAME = "stop"


class StopFile:
    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / _NAME

    def write(self, reason: str) -> None:
        try:
            self._path.write_text(reason + "\n", encoding="utf-8")
        except OSError as error:
            raise ExecutionError(f"{self._path} cannot be written: {error.strerror}") from error

    def clear(self) -> None:
        """Nobody asks any more."""
        self._path.unlink(missing_ok=True)

    def reason(self) -> str | None:
        """Who asked, and why; None: nobody did."""
        try:
            return self._path.read_text(encoding="utf-8").strip() or "somebody asked for it"
        except OSError:
            return None


def open_store(job: Job, folder: RunFolder) -> Store:
    """In the run's folder; or in a folder of the same name where the job wants it."""
    if job.storage is None:
        return Store.open(folder.checkpoints)
    return Store.open(f"{job.storage.rstrip('/')}/{folder.path.name}")


def refuse_unshared(job: Job, folder: RunFolder) -> None:
    """Nodes on other machines do not have the run's folder."""
    if job.storage is None:
        raise JobError(
            "storage is missing: the nodes are on other machines, where the checkpoints cannot lie in the "
            f"run's folder {folder.path}; expected storage: s3://bucket/prefix, or a folder that all "
            "machines share"
        )
