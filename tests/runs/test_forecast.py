"""The forecast of an extension: what the rest takes; and the checkpoints that the end leaves for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastune.checkpoints.store import Store
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.runs.control.forecast import forecast
from elastune.runs.control.requests import RefusedRequestError
from elastune.runs.retention import Retention
from elastune.setup.run_setup import prepare
from tests.fire.portrait import portrait
from tests.runs.checked_run import SAMPLES, CheckedRun, job_of

TIGHT = {"deadline": 100.0, "cluster__minimum_charge": 0.0, "cluster__max_nodes": 2}


def ended(algorithm: str, **changes: object) -> CheckedRun:
    setup = prepare(job_of(**{"search__algorithm": algorithm, **TIGHT, **changes}), samples=SAMPLES)
    run = CheckedRun(setup, seed=1)
    run.run()
    return run


def longer(run: CheckedRun, deadline_s: float) -> ev.RunExtended:
    return ev.RunExtended(at_s=run.body.now_s, request_id="1", deadline_s=deadline_s)


@pytest.mark.parametrize("algorithm", ["asha", "random", "pbt", "hypersched"])
def test_the_forecast_is_near_what_the_extended_run_takes_and_changes_nothing(algorithm: str) -> None:
    run = ended(algorithm)
    request = longer(run, 400.0)
    before = portrait(vars(run.core))
    told = forecast(run.setup, run.core, request)
    assert portrait(vars(run.core)) == before
    assert told.so_far.cost == pytest.approx(run.usd)
    assert told.deadline_s == 400.0
    assert told.expected is not None
    assert run.reopen(request)
    assert told.expected.jct_seconds == pytest.approx(run.seconds, rel=0.25)
    assert told.expected.cost == pytest.approx(run.usd, rel=0.25)


def test_a_forecast_in_the_middle_of_a_run_counts_what_is_done() -> None:
    run = CheckedRun(prepare(job_of(search__algorithm="asha", deadline=300.0), samples=SAMPLES), seed=1)
    run.start()
    while run.state.now_s < 60.0:
        run.step()
    request = longer(run, 900.0)
    told = forecast(run.setup, run.core, request)
    assert told.expected is not None
    assert told.expected.jct_seconds > told.so_far.jct_seconds == run.state.now_s
    assert run.grant(request)
    while run.step():
        pass
    assert told.expected.jct_seconds == pytest.approx(run.seconds, rel=0.4)


def test_an_extension_that_would_train_nothing_is_refused() -> None:
    run = ended("asha", deadline=2000.0)
    assert run.state.ended is Ending.COMPLETE
    with pytest.raises(RefusedRequestError, match="nothing is left to train"):
        forecast(run.setup, run.core, longer(run, 4000.0))


def fill(store: Store, run: CheckedRun) -> None:
    """As if every iteration had been saved."""
    for trial in run.state.trials.values():
        for iteration in range(1, trial.saved + 1):
            store.write(trial.number, iteration, b"model")


@pytest.mark.parametrize(
    ("keeps_race", "ending"), [(True, "deadline"), (False, "deadline"), (True, "target")]
)
def test_after_the_end_the_best_and_the_last_of_the_race_are_kept(
    tmp_path: Path, keeps_race: bool, ending: str
) -> None:
    run = ended("asha", **({"stop_when": "score > 0.5"} if ending == "target" else {}))
    state = run.state
    assert state.ended == Ending(ending)
    store = Store.open(tmp_path)
    fill(store, run)
    retention = Retention(store, state, keeps_race=keeps_race)
    retention.tidy()
    retention.close()
    assert state.best is not None
    kept = {(state.best.trial, state.best.iteration)}
    if keeps_race and ending == "deadline":
        kept |= {(n, state.trials[n].saved) for n in state.changes.cut if state.trials[n].saved}
        assert len(kept) > 2
    assert set(store.list()) == kept


def test_an_extended_run_needs_no_checkpoint_that_was_deleted(tmp_path: Path) -> None:
    """Every gang of the extended run loads what was there when it began."""
    run = ended("pbt")
    store = Store.open(tmp_path)
    fill(store, run)
    retention = Retention(store, run.state)
    retention.tidy()
    retention.close()
    there, told = set(store.list()), len(run.told)
    assert run.reopen(longer(run, 300.0))
    saved: set[tuple[int, int]] = set()
    for event, commands in run.told[told:]:
        if isinstance(event, ev.Progressed):
            saved |= {(event.trial, iteration) for iteration in event.saved}
        if isinstance(event, ev.TrialPaused):
            saved.add((event.trial, run.state.trials[event.trial].saved))
            saved |= {(event.trial, iteration) for iteration in range(1, 99)}
        for command in commands:
            needed = getattr(command, "after_iteration", 0)
            if needed:
                origin = getattr(command, "origin", None)
                loaded = (command.trial if origin is None else origin, needed)  # type: ignore[union-attr]
                assert loaded in there | saved
