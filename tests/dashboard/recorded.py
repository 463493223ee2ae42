"""A folder of small recorded runs: of every policy, a hopping, a failed, a dead, a suspended, an old and a
broken one."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import elastune
from elastune.core.commands import Rest
from elastune.journal.codec import encode
from elastune.journal.run_folders import find_run
from tests.policies.test_contract import POLICIES
from tests.runs.checked_run import job_of

EVIL = "<img src=x onerror=alert(1)>"
HOPPING = {"algorithm": "random", "trials": 4, "max_iterations": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Ids of runs by what they are."""

    root: Path
    runs: Mapping[str, str]


def record_all(root: Path) -> Recorded:
    runs = {name: _of_policy(root, name) for name in POLICIES}
    runs["hopping"] = _simulated(
        root, execution="hopper", data={"partitions": 2}, search=HOPPING, cluster__max_nodes=2
    )
    runs["failed"] = _simulated(root, _fails, name="failed")
    runs["evil"] = _evil(root)
    runs["died"] = _cut(root, runs["asha"], "d1ed00")
    runs["suspended"] = _suspended(root, runs["died"], "5e5e00")
    runs["old"] = _with_old_key(root, runs["rubberband"], "01d000")
    broken = root / "broken-20260101T000000Z-b40ce4"
    broken.mkdir()
    (broken / "journal.sqlite").write_bytes(b"no journal" * 1000)
    return Recorded(root=root, runs=runs)


def _simulated(root: Path, learning: Callable[..., object] | None = None, /, **changes: object) -> str:
    job = job_of(**changes) if learning is None else job_of(learning, **changes)
    return elastune.simulate_many(job, folder=root).runs[0].digest.run


def _of_policy(root: Path, name: str) -> str:
    search = {"trials": 4, "max_iterations": 4} | POLICIES[name]
    given = {key: value for key, value in search.items() if value is not None}
    return _simulated(root, name=name, search=given, deadline="30m", cluster__max_nodes=2)


def _fails(config: Mapping[str, float], iteration: int) -> float:
    raise MemoryError("cannot allocate")


def _evil(root: Path) -> str:
    """Everything that a user can name is markup, and a formula where a table has it first."""

    def learn(config: Mapping[str, object], iteration: int) -> dict[str, float]:
        if config["number"] > 0.6 and iteration > 1:  # type: ignore[operator]
            raise ValueError(f"{EVIL} of a traceback")
        return {EVIL: 1.0 + iteration}

    space = {EVIL: {"choice": [EVIL, f"=cmd|{EVIL}", "@plain"]}, "number": {"float": [0.0, 1.0]}}
    search = {"algorithm": "asha", "trials": 8, "max_iterations": 4, "eta": 2}
    run = _simulated(root, learn, metric=EVIL, space=space, search=search)
    # No job may have this name; a journal is a file that others can write.
    return _copied(root, run, "e71100", lambda to: to.execute("UPDATE elastune_runs SET name = ?", (EVIL,)))


def _cut(root: Path, run: str, fresh: str) -> str:
    """The same run, killed in the middle."""

    def cut(journal: sqlite3.Connection) -> None:
        (events,) = journal.execute("SELECT max(number) FROM elastune_entries").fetchone()
        journal.execute("DELETE FROM elastune_entries WHERE number > ?", (events // 2,))
        (lines,) = journal.execute(
            "SELECT count(*) + sum(length(commands) - length(replace(commands, char(10), ''))) "
            "FROM elastune_entries"
        ).fetchone()
        journal.execute("UPDATE elastune_runs SET events = ?, lines = ?", (events // 2, lines))

    return _copied(root, run, fresh, cut)


def _suspended(root: Path, run: str, fresh: str) -> str:
    """A run that was cut, whose last command is to rest."""

    def rest(journal: sqlite3.Connection) -> None:
        number, lines = journal.execute(
            "SELECT number, commands FROM elastune_entries ORDER BY number DESC LIMIT 1"
        ).fetchone()
        commands = "\n".join([*filter(None, [lines]), encode(Rest())])
        journal.execute("UPDATE elastune_entries SET commands = ? WHERE number = ?", (commands, number))
        journal.execute("UPDATE elastune_runs SET lines = lines + 1")

    return _copied(root, run, fresh, rest)


def _with_old_key(root: Path, run: str, fresh: str) -> str:
    """As a version recorded it in which `may_exceed` was `yields`."""

    def rename(journal: sqlite3.Connection) -> None:
        number, line = journal.execute(
            "SELECT number, event FROM elastune_entries ORDER BY number LIMIT 1"
        ).fetchone()
        event = json.loads(line)
        job = event["job"]
        job["yields"] = job.pop("may_exceed", "deadline")
        written = json.dumps(event, separators=(",", ":"))
        journal.execute("UPDATE elastune_entries SET event = ? WHERE number = ?", (written, number))

    return _copied(root, run, fresh, rename)


def _copied(root: Path, run: str, fresh: str, change: Callable[[sqlite3.Connection], object]) -> str:
    folder = find_run(root, run).folder.path
    copy = folder.with_name(f"{folder.name[:-6]}{fresh}")
    shutil.copytree(folder, copy)
    with sqlite3.connect(copy / "journal.sqlite") as journal:
        journal.execute("UPDATE elastune_runs SET run = ?", (fresh,))
        journal.execute("UPDATE elastune_entries SET run = ?", (fresh,))
        change(journal)
    journal.close()
    return fresh
