"""The history of a run: booked from the journal alone, and the same as the core's own books."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

import pytest

import elastune
from elastune.core.state import State
from elastune.core.trials import Activity
from elastune.history.recorder import History, history_of
from elastune.history.trials import HistoryTerms
from elastune.journal.codec import replay
from elastune.journal.store import Journal
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import prepare
from tests.cli.commands import SMALL, SYNTHETIC
from tests.fire.experiments import make_experiment

CLOSE = 1e-6


def terms_of(state: State) -> HistoryTerms:
    return HistoryTerms.of(state.terms)


def simulated(seed: int) -> Simulation:
    """A random job under a random policy, with faults, outages of the driver among them."""
    experiment = make_experiment(seed)
    simulation = Simulation(
        experiment.setup,
        seed=seed,
        journal=MemoryJournal(),
        record=unnamed(experiment.setup),
        faults=experiment.faults,
    )
    simulation.run()
    return simulation


def check_against_the_state(history: History, state: State) -> None:
    ledger, now_s = state.ledger, state.now_s
    assert history.events == state.events
    assert history.usd == pytest.approx(ledger.accrued_usd(now_s), abs=CLOSE)
    lives = {life.node: life for life in history.nodes}
    assert lives.keys() == ledger.nodes.keys()
    for name, account in ledger.nodes.items():
        life = lives[name]
        assert (life.born_s, life.ready_s, life.ended_s, life.lost, life.down_s) == (
            account.born_s, account.ready_s, account.ended_s, account.lost, account.down_s,
        )  # fmt: skip
        if account.ended_s is not None:
            assert life.usd == pytest.approx(account.usd, abs=CLOSE)
    assert sum(life.usd for life in history.nodes) <= history.usd + CLOSE
    _check_slot_time(history, state)
    assert {number: list(each.kept) for number, each in history.trials.items()} == {
        number: trial.values for number, trial in state.trials.items()
    }
    found = None if not history.best else history.best[-1]
    best = state.best
    assert (None if best is None else (best.metric, best.trial, best.iteration)) == (
        None if found is None else (found.value, found.trial, found.iteration)
    )


def _check_slot_time(history: History, state: State) -> None:
    """By trial and activity; the ledger books what a gang does now only when it does something else."""
    held = {number: trial.since_s for number, trial in state.trials.items() if trial.activity is not None}
    used: dict[tuple[int, Activity], float] = defaultdict(float)
    for gang in history.gangs:
        for span in gang.spans:
            until_s = min(span.until_s, held[gang.trial]) if gang.end is None else span.until_s
            used[gang.trial, span.activity] += max(0.0, until_s - span.from_s) * len(gang.gang)
    for number, use in state.ledger.trials.items():
        booked = (use.starting_s, use.training_s, use.waiting_s, use.saving_s)
        for activity, slot_s in zip(Activity, booked, strict=True):
            assert used[number, activity] == pytest.approx(slot_s, abs=1e-4)


def check_shape(history: History) -> None:
    """What can be drawn: nothing runs backwards, spans follow each other, no slot has two gangs."""
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(history.money))
    assert all(a[1] <= b[1] + CLOSE for a, b in itertools.pairwise(history.money))
    assert all(a.at_s <= b.at_s for a, b in itertools.pairwise(history.best))
    taken = defaultdict(list)
    for gang in history.gangs:
        assert all(a.until_s == b.from_s for a, b in itertools.pairwise(gang.spans))
        for slot in gang.gang:
            taken[slot].append((gang.from_s, gang.until_s))
    for spans in taken.values():
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(spans)))


@pytest.mark.parametrize("block", range(3))
def test_a_history_agrees_with_the_ledger_whatever_goes_wrong(block: int) -> None:
    for seed in range(300_000 + 12 * block, 300_000 + 12 * (block + 1)):
        simulation = simulated(seed)
        state = simulation.core.state
        entries = simulation.journal.read(simulation.record.run)
        history = history_of(entries, terms_of(state))
        check_against_the_state(history, state)
        check_shape(history)
        assert history.ending is state.ended
        assert history.end_s == state.ended_s


@pytest.mark.parametrize("seed", [300_001, 300_007, 14, 25])
def test_a_run_that_was_cut_off_has_the_history_up_to_there(seed: int) -> None:
    simulation = simulated(seed)
    entries = list(simulation.journal.read(simulation.record.run))
    for share in (0.0, 0.1, 0.35, 0.6, 0.9):
        part = entries[: max(1, int(share * len(entries)))]
        state = replay(simulation.setup.make_core(seed), part).state
        history = history_of(part, terms_of(state))
        check_against_the_state(history, state)
        check_shape(history)
        if state.ended is None:
            assert history.ending is None
            assert history.end_s == state.now_s


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_histories_agree_with_the_ledger(block: int) -> None:
    for seed in range(400_000 + 50 * block, 400_000 + 50 * (block + 1)):
        simulation = simulated(seed)
        state = simulation.core.state
        history = history_of(simulation.journal.read(simulation.record.run), terms_of(state))
        check_against_the_state(history, state)
        check_shape(history)


def test_nothing_has_no_history() -> None:
    state = simulated(300_000).core.state
    history = history_of([], terms_of(state))
    assert (history.nodes, history.gangs, history.usd, history.end_s) == ((), (), 0.0, 0.0)


def test_the_bill_bends_where_the_minimum_charge_is_used_up() -> None:
    """A node costs a minute at once, and more only after that minute."""
    setup = prepare(elastune.load_job(SYNTHETIC), samples=64)
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=unnamed(setup))
    simulation.run()
    history = history_of(simulation.journal.read(simulation.record.run), terms_of(simulation.core.state))
    born_s = min(life.born_s for life in history.nodes)
    nodes = sum(life.born_s == born_s for life in history.nodes)
    early = [usd for at_s, usd in history.money if born_s + CLOSE < at_s <= born_s + 60.0]
    assert early
    assert early == pytest.approx([nodes * 12.24 / 60] * len(early))
    assert any(at_s == pytest.approx(born_s + 60.0) for at_s, _ in history.money)


def test_outages_refusals_and_crashes_are_reported(tmp_path: Path) -> None:
    faults = "lost_per_hour=20,refused=0.4,crash=0.1,driver_per_hour=30"
    campaign = elastune.simulate_many(SMALL, policies=["asha"], folder=tmp_path, faults=faults, seeds=4)
    assert campaign.folder is not None
    journal = Journal.open(campaign.folder.journal, read_only=True)
    job = elastune.load_job(SMALL)
    tuning = job.tuning()
    terms = HistoryTerms(metric=tuning.metric, mode=tuning.mode, cluster=job.cluster.to_terms())
    histories = [history_of(journal.read(record.run), terms) for record in journal.runs()]
    for history, run in zip(histories, campaign.runs, strict=True):
        assert history.crashes >= sum(failure.trials for failure in run.standing.failures)
        assert history.remarks == run.standing.remarks
    assert sum(len(history.outages) for history in histories)
    assert sum(len(history.refusals) for history in histories)
    assert sum(life.lost for history in histories for life in history.nodes)
