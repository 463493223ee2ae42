"""The whole page of a run: its state, what does not change, the figures and the table of trials."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from elastune.history.status import promise_of
from elastune.journal.run_commands import command_for
from elastune.journal.run_folders import FoundRun
from elastune.views.page.figures import Json, figures_json, finite, snapshot_json
from elastune.views.page.follower import RunFollower, RunMoment
from elastune.views.page.masking import masked
from elastune.views.page.trials import table_csv, table_json

Page = dict[str, Json]
PARTS = ("moment", "facts", "figures", "table", "csv")


def page_of(follower: RunFollower, moment: RunMoment) -> Page:
    trials = follower.trials()
    return {
        "moment": moment_json(moment),
        "facts": facts_json(follower),
        "figures": figures_json(follower),
        "table": table_json(trials, follower.setup.terms.mode),
        "csv": {"text": table_csv(trials)},
    }


def moment_json(moment: RunMoment) -> Json:
    data = {
        "state": moment.state.value,
        "writer": moment.writer,
        "events": moment.events,
        "total": moment.total,
        **({} if moment.is_whole else {"until_s": moment.until_s, "best": moment.best}),
        "snapshot": snapshot_json(moment.snapshot),
    }
    whole = finite(data)
    assert isinstance(whole, dict)
    return whole


def facts_json(follower: RunFollower) -> Json:
    found, setup = follower.found, follower.setup
    record, promise = found.record, promise_of(setup.quote)
    return {
        "run": record.run,
        "name": record.name,
        "policy": record.policy,
        "why": str(setup.choice),
        "seed": record.seed,
        "body": record.body.value,
        "created_utc": record.created_utc.isoformat(),
        **place_json(found),
        "job": yaml.safe_dump(masked(_given(follower.job())), sort_keys=False, allow_unicode=True),
        "promise": None if promise is None else {"seconds": promise.jct_seconds, "usd": promise.cost},
        "confidence": setup.terms.limits.confidence,
        "is_free": setup.terms.cluster.is_free,
        "metric": setup.terms.metric,
    }


def _given(job: Mapping[str, object]) -> dict[str, object]:
    """Without the keys that have no value, on two levels: below, None may be that of a hyperparameter."""
    inner = {
        key: {name: each for name, each in value.items() if each is not None}
        if isinstance(value, dict) and key != "space"
        else value
        for key, value in job.items()
    }
    return {key: value for key, value in inner.items() if value is not None}


def place_json(found: FoundRun) -> Json:
    """Where the run is, which changes when its folder is moved."""
    run, folder = found.record.run, found.folder
    commands = {name: command_for(name, folder, run) for name in ("status", "report", "resume")}
    return {"folder": str(folder.path), "commands": commands}
