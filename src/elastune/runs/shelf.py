"""What a run's folder holds beside its journal: the job, the plan, what was predicted, what came of it.

Only the journal is the truth. The other files can be made from it again; they spare a replay, and are
believed only where they bear the hash of the journal's lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from elastune.errors import JobError
from elastune.job import Job
from elastune.journal import RunFolder
from elastune.planning import Quote
from elastune.runs.result import Estimate
from elastune.trainables import located
from elastune.trainables.reference import CURVE_SUFFIXES

_PREDICTED = "predicted.json"
_RESULT = "result.json"


def write_intent(folder: RunFolder, job: Job, quote: Quote | None, predicted: Mapping[str, Estimate]) -> None:
    """Before the first run: what was asked for, planned, and predicted for each policy."""
    _write(
        folder.job, yaml.safe_dump(_seen_from_anywhere(job.to_dict()), sort_keys=False, allow_unicode=True)
    )
    if quote is not None:
        _write(folder.plan, _json(quote.to_dict()))
    estimates = {
        policy: {"jct_seconds": each.jct_seconds, "cost": each.cost} for policy, each in predicted.items()
    }
    _write(folder.report / _PREDICTED, _json(estimates))


def write_result(folder: RunFolder, result: Mapping[str, object]) -> None:
    """After the last run: what `elastune simulate --json` prints."""
    _write(folder.report / _RESULT, _json(result))


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
