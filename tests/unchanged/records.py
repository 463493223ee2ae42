"""What an experiment came to, without what differs from one machine or minute to the next."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import sqlite3
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from elastune.cli.app import main
from tests.fire.experiments import make_experiment
from tests.fire.trial import RUN, Watched, put_to_trial
from tests.unchanged.experiments import ROOT, Experiment

Record = dict[str, Any]

# Keys of the JSON that were renamed on purpose: as they were saved, and as they are.
RENAMED = {"yields": "may_exceed"}
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)|\d{8}T\d{6}Z")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_MISSING = "(missing)"


def record(experiment: Experiment) -> Record:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if experiment.fire_seed is not None:
            return _record_fire(experiment, experiment.fire_seed)
        with tempfile.TemporaryDirectory() as folder:
            found = _record_commands(experiment, Path(folder))
            return dict(_plain(found, Path(folder), _run_ids(found)))


def _record_fire(experiment: Experiment, seed: int) -> Record:
    try:
        trial = _measure(seed) if experiment.measuring else put_to_trial(seed)
    except Exception as error:  # noqa: BLE001  an invariant that broke is part of the record
        return {"error": type(error).__name__, "message": str(error)[:300]}
    lines = [line for entry in trial.journal.read(RUN) for line in entry.lines]
    state = trial.core.state
    return {"journal": _journal(lines), "events": state.events, "ended": str(state.ended)}


def _measure(seed: int) -> Watched:
    """The policy that measures a training, which no job can name."""
    chosen = make_experiment(seed)
    setup = replace(chosen.setup, policy="profile", quote=None, restless=0)
    trial = Watched(replace(chosen, setup=setup))
    trial.run()
    return trial


def _journal(lines: list[str]) -> Record:
    """The job by its keys, which has a path of this machine in it; all other lines by their hash.

    Sentences are left out of the hash: they may be reworded, and tracebacks name files and lines.
    """
    first = json.loads(lines[0])
    job = json.loads(json.dumps(first.pop("job", None)).replace(str(ROOT), "<root>"))
    rest = _without_texts("\n".join([json.dumps(first), *lines[1:]]))
    return {
        "lines_sha256": _sha256(rest),
        "lines": dict(sorted(Counter(json.loads(line)["type"] for line in lines).items())),
        "job": job,
    }


def _without_texts(lines: str) -> str:
    return _STRINGS.sub(lambda found: '"<text>"' if " " in found[0] else found[0], lines)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _record_commands(experiment: Experiment, folder: Path) -> Record:
    job, runs = folder / "unchanged.yaml", ("--runs-folder", str(folder / "runs"))
    job.write_text(json.dumps(experiment.job))
    if experiment.command == "plan":
        return {"plan": _run("plan", str(job), *experiment.arguments)}
    found: Record = {"simulate": _run("simulate", str(job), *experiment.arguments, *runs)}
    if "error" in found["simulate"]:
        return found
    found["journals"] = journals = _journals(folder / "runs")
    if experiment.command == "campaign":
        found |= {"status": _run("status", "last", *runs), "runs": _run("runs", *runs)}
        return _without_hashes(found, journals)
    found["status"] = _run("status", "last", "--audit", *runs)
    found["export"] = _exported(folder, runs)
    if experiment.reported:
        found |= {"report": _run("report", "last", *runs), "runs": _run("runs", *runs)}
    return _without_hashes(found, journals)


def _journals(folder: Path) -> list[Record]:
    """Of each run, in the order of policies and seeds."""
    found: list[Record] = []
    for path in sorted(folder.glob("*/journal.sqlite")):
        with contextlib.closing(sqlite3.connect(path)) as database:
            entries = "SELECT event, commands FROM elastune_entries WHERE run = ? ORDER BY number"
            for run, policy, seed in database.execute(
                "SELECT run, policy, seed FROM elastune_runs ORDER BY 1"
            ):
                rows = database.execute(entries, (run,)).fetchall()
                lines = [line for row in rows for text in row if text for line in text.split("\n")]
                sha256 = _sha256("".join(f"{line}\n" for line in lines))
                found.append({"policy": policy, "seed": seed, "sha256": sha256, **_journal(lines)})
    return sorted(found, key=lambda each: (each["policy"], each["seed"]))


def _without_hashes(found: Record, journals: list[Record]) -> Record:
    """The hash that the program gives has the path of the training in it: is it that of the lines?"""
    text = json.dumps(found)
    for journal in journals:
        text = text.replace(journal["sha256"], f"<sha256 of {journal['policy']} {journal['seed']}>")
    plain: Record = json.loads(text)
    return plain


def _run(*arguments: str) -> Record:
    """What a command prints as JSON, and its exit code."""
    out, code = io.StringIO(), 0
    with (
        patch.object(sys, "argv", ["elastune", *arguments, "--json"]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        try:
            main()
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        except Exception as error:  # noqa: BLE001  a bug is part of the record
            return {"error": type(error).__name__, "message": str(error)[:300]}
    try:
        return {"exit_code": code, **json.loads(out.getvalue())}
    except ValueError:
        return {"exit_code": code, "error": "no JSON", "message": out.getvalue()[:300]}


def _exported(folder: Path, runs: tuple[str, ...]) -> Record:
    """The tables of trials and rows: their columns, and a hash of the values."""
    _run("export", "last", "--format", "json", "--to", str(folder / "tables"), *runs)
    found: Record = {}
    for path in sorted((folder / "tables").glob("*.json")):
        text = path.read_text()
        try:
            rows = json.loads(text)
        except ValueError:
            rows = [json.loads(line) for line in text.splitlines()]
        values = json.dumps([list(row.values()) for row in rows])
        values = values.replace(str(folder), "").replace(str(ROOT), "")
        columns = list(dict.fromkeys(key for row in rows for key in row))
        found[path.stem] = {
            "columns": columns,
            "rows": len(rows),
            "sha256": _sha256(_TIMES.sub("", _without_texts(values))),
        }
    return found


def _run_ids(found: object) -> set[str]:
    if isinstance(found, Mapping):
        own = {found["run"]} if isinstance(found.get("run"), str) else set()
        return own.union(*map(_run_ids, found.values()))
    return set().union(*map(_run_ids, found)) if isinstance(found, list) else set()


def _plain(found: Any, folder: Path, ids: set[str]) -> Any:
    if isinstance(found, Mapping):
        return {str(_plain(key, folder, ids)): _plain(value, folder, ids) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(each, folder, ids) for each in found]
    if not isinstance(found, str):
        return found
    text = found.replace(str(folder), "<folder>").replace(str(ROOT), "<root>")
    for run in sorted(ids, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(run)}\b", "<run>", text)
    return re.sub(r"<time>-[0-9a-f]{6}\b", "<time>-<run>", _TIMES.sub("<time>", text))


def differences(before: Any, now: Any, *, texts: bool = False, at: str = "") -> Iterator[str]:
    """`key: before -> now`, for each leaf that differs; sentences count only with `texts`."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        before, now = _renamed(before), _renamed(now)
        for key in [*before, *(key for key in now if key not in before)]:
            there, here = before.get(key, _MISSING), now.get(key, _MISSING)
            yield from differences(there, here, texts=texts, at=f"{at}.{key}".lstrip("."))
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{at}: {len(before)} -> {len(now)} entries"
        for number, (there, here) in enumerate(zip(before, now, strict=False)):
            yield from differences(there, here, texts=texts, at=f"{at}[{number}]")
    elif json.dumps(before) != json.dumps(now) and (texts or not (_is_text(before) and _is_text(now))):
        yield f"{at}: {json.dumps(before)[:120]} -> {json.dumps(now)[:120]}"


def _renamed(found: Mapping[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(key, key): value for key, value in found.items()}


def _is_text(found: object) -> bool:
    return isinstance(found, str) and " " in found and not found.startswith("<sha256")
