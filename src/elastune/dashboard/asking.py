"""Quotes for the sliders: the same job with other limits, its frontier, other planners, a simulation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import yaml

from elastune.api.planning import quote
from elastune.api.simulating import simulate_many
from elastune.dashboard.downloads import is_inside
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.job.policy_choice import choose
from elastune.journal.run_folders import RunFolder, run_folders
from elastune.planning.quote import Quote
from elastune.runs.campaign import Campaign
from elastune.views.page.figures import Json, finite
from elastune.views.page.masking import masked_text

# A slider asks often: fewer samples than a promise has. The answer says how many.
_SAMPLES_WHILE_PLAYING = 256
_SAMPLES = 1024
_LIMITS = ("deadline", "budget", "confidence")
_NODES = ("max_nodes", "nodes")
_KIND = "kind"
_MOST_TEXT = 200_000
_MADE_UP = "synthetic:hypersched"
# A list of jobs to choose from; older runs have theirs on their pages.
_MOST_RUNS = 300


def changed_job(text: str, changes: Mapping[str, object], folder: Path) -> dict[str, object]:
    """The job as plain data with other limits; a change that is None removes the key."""
    if len(text) > _MOST_TEXT:
        raise JobError(f"the job has {len(text):,} characters; expected at most {_MOST_TEXT:,}")
    data = Job.from_yaml_text(text, "the job", folder).to_dict()
    for key, value in changes.items():
        if key in _LIMITS:
            _put(data, key, value)
        elif key in _NODES:
            cluster = data["cluster"]
            assert isinstance(cluster, dict)
            _put(cluster, key, value)
        elif key == _KIND:
            _choose_kind(data, value)
        else:
            expected = ", ".join((*_LIMITS, *_NODES, _KIND))
            raise JobError(f"{key} cannot be changed here; expected one of: {expected}")
    Job.from_dict(data, "the job")
    return data


def _choose_kind(data: dict[str, object], name: object) -> None:
    """Only this kind of node; None: any of the job's."""
    cluster = data["cluster"]
    assert isinstance(cluster, dict)
    kinds = cluster.get("kinds") or []
    if name is None:
        return
    chosen = [kind for kind in kinds if kind["name"] == name]
    if not chosen:
        names = ", ".join(kind["name"] for kind in kinds) or "none, the job has no kinds"
        raise JobError(f"the kind of node is {name!r}; expected one of: {names}")
    cluster["kinds"] = chosen


def _put(data: dict[str, object], key: str, value: object) -> None:
    if value is None:
        data.pop(key, None)
    else:
        data[key] = value


def quote_json(text: str, changes: Mapping[str, object], folder: Path, *, whole: bool) -> Json:
    """`whole`: with the frontier and the other planners, which takes longer."""
    job = Job.from_dict(changed_job(text, changes, folder), "the job")
    planned = choose(job).policy == "rubberband"
    options: dict[str, object] = {"samples": _SAMPLES if whole else _SAMPLES_WHILE_PLAYING} if planned else {}
    if planned and whole:
        options |= {"frontier": True, "compare": True}
    found = quote(job, **options)
    data = finite(found.to_dict())
    assert isinstance(data, dict)
    cluster = job.cluster.to_terms() if job.cluster.is_settled else None
    return {
        **data,
        "is_plan": isinstance(found, Quote),
        "samples": options.get("samples"),
        "is_free": job.cluster.to_terms().is_free if cluster is not None else False,
        "limits": {"deadline": job.deadline, "budget": job.budget, "confidence": job.confidence},
        "most_nodes": None if cluster is None else cluster.max_nodes,
        "kind_names": kind_names(text, folder),
    }


def kind_names(text: str, folder: Path) -> list[str]:
    """The kinds of nodes that the job has a choice of."""
    return [kind.name for kind in Job.from_yaml_text(text, "the job", folder).cluster.kinds]


def job_text(text: str, changes: Mapping[str, object], folder: Path) -> str:
    """The job file for the chosen point."""
    return yaml.safe_dump(changed_job(text, changes, folder), sort_keys=False, allow_unicode=True)


def simulated_json(
    text: str, changes: Mapping[str, object], folder: Path, root: Path, *, faults: str, seed: int
) -> Json:
    """Run it in virtual time; the run is kept under `root`, where its page shows where the money went. A
    training that only real runs can do is replaced by made-up curves: time and money are the job's."""
    data = changed_job(text, changes, folder)

    def simulated(job: Job) -> Campaign:
        return simulate_many(job, seed=seed, seeds=1, faults=faults, folder=root)

    invents = False
    try:
        campaign = simulated(Job.from_dict(data, "the job"))
    except JobError as error:
        try:
            campaign, invents = simulated(Job.from_dict(_with_made_up_curves(data), "the job")), True
        except JobError:
            raise error from None
    return {
        "run": campaign.runs[0].digest.run,
        "result": finite(campaign.results[0].to_dict()),
        "faults": faults,
        "invents": invents,
    }


def _with_made_up_curves(data: Mapping[str, object]) -> dict[str, object]:
    kept = {key: value for key, value in data.items() if key not in {"space", "metric", "mode", "stop_when"}}
    return {**kept, "trainable": _MADE_UP}


def known_jobs(root: Path) -> list[Json]:
    """The jobs of the newest runs in a folder, newest first, each text once, with the runs that have it."""
    known: dict[str, Json] = {}
    runs: dict[str, list[str | None]] = {}
    for folder in run_folders(root)[:_MOST_RUNS]:
        text = _text_of(folder)
        if text is None:
            continue
        known.setdefault(text, {"name": folder.name or folder.path.name, "text": text})
        runs.setdefault(text, []).append(folder.run)
    return [{**job, "runs": runs[text]} for text, job in known.items()]


def _text_of(folder: RunFolder) -> str | None:
    """None: there is no job, or it is a link to a file elsewhere."""
    path = folder.job
    try:
        if not (is_inside(path, folder.path) and path.is_file()):
            return None
        status = path.stat()
        return _read_masked(path, status.st_mtime_ns, status.st_size)
    except (OSError, UnicodeDecodeError):
        return None


@functools.lru_cache(maxsize=_MOST_RUNS)
def _read_masked(path: Path, _mtime_ns: int, _size: int) -> str:
    with path.open(encoding="utf-8") as file:
        return masked_text(file.read(_MOST_TEXT))
