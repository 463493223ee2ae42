"""The history of a run in which models hop: visits, rounds, and how well the workers were used."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from elastune.core import events as ev
from elastune.history.hopping import HoppingFigures, hopping_of, recall_hopping
from elastune.history.recorder import History, history_of
from elastune.history.result import count_phases
from elastune.history.trial_tables import table_recorder, trial_line
from elastune.journal.codec import encode, event_of, replay
from elastune.journal.records import Entry
from elastune.journal.writer import MemoryJournal
from elastune.providers.simulated_faults import NodeFaults
from elastune.runs.simulation import Simulation, unnamed
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import prepare
from elastune.views.live.progress import promise_of
from elastune.views.live.snapshot import Snapshot, changes, summary_line
from elastune.views.live.snapshot_of_state import Subject, take
from tests.history.test_history import check_against_the_state, check_shape, terms_of
from tests.runs.checked_run import job_of
from tests.thoroughness import most_telling

LOSSES = Faults(nodes=NodeFaults(lost_per_hour=30.0))
RANDOM = {"algorithm": "random", "trials": 6, "max_iterations": 3}
ASHA = {"algorithm": "asha", "trials": 6, "max_iterations": 4}
HYPERBAND = {"algorithm": "hyperband", "max_iterations": 4, "eta": 2}
SHA = {"algorithm": "sha", "trials": 9, "max_iterations": 9}
PLAIN = {"partitions": 4}
VALIDATED = {"partitions": 4, "validation": 0.2}


def simulated(
    search: object = RANDOM,
    data: object = PLAIN,
    *,
    seed: int = 0,
    faults: Faults = NO_FAULTS,
    **changes: object,
) -> Simulation:
    setup = prepare(job_of(execution="hopper", data=data, search=search, **changes))
    journal = MemoryJournal()
    simulation = Simulation(setup, seed=seed, journal=journal, record=unnamed(setup), faults=faults)
    simulation.run()
    return simulation


def history(simulation: Simulation) -> History:
    return history_of(simulation.journal.read(simulation.record.run), terms_of(simulation.core.state))


def hopping(simulation: Simulation) -> HoppingFigures:
    found = recall_hopping(simulation.journal.read(simulation.record.run), simulation.setup.terms)
    assert found is not None
    return found


@most_telling("data", VALIDATED, PLAIN, quick=1)
@most_telling("search", HYPERBAND, SHA, RANDOM, ASHA, quick=1)
@pytest.mark.parametrize("faults", [NO_FAULTS, LOSSES, Faults(crash=0.02, driver_per_hour=60.0)])
def test_it_agrees_with_the_books_of_the_core(search: object, data: object, faults: Faults) -> None:
    simulation = simulated(search, data, seed=3, faults=faults)
    found = history(simulation)
    check_against_the_state(found, simulation.core.state)
    check_shape(found)
    hopped = hopping(simulation)
    ended = sum(
        isinstance(event_of(entry), ev.VisitEnded) for entry in simulation.journal.read(simulation.record.run)
    )
    assert hopped.visits == ended == sum(each.visits for each in hopped.rounds)
    for each in hopped.rounds:
        assert each.training_s <= each.occupied_s + 1e-6 <= each.up_s + 2e-6
    assert all(each.gap is None or each.gap >= -1e-9 for each in hopped.rounds)
    assert 0.0 < (hopped.utilisation or 0.0) <= 1.0


@pytest.mark.parametrize("share", [0.1, 0.7])
def test_a_run_that_was_cut_off_has_it_up_to_there(share: float) -> None:
    simulation = simulated(faults=LOSSES, seed=1)
    entries = list(simulation.journal.read(simulation.record.run))
    part = entries[: int(share * len(entries))]
    state = replay(simulation.setup.make_core(1), part).state
    found = history_of(part, terms_of(state))
    check_against_the_state(found, state)
    check_shape(found)
    hopped = hopping_of(found, 2)
    if hopped is not None:
        assert hopped.rounds[-1].bound_s is None  # it goes on


def test_a_round_is_an_epoch_of_all_its_trials() -> None:
    hopped = hopping(simulated(data=VALIDATED))
    assert [(each.trials, each.first_iteration, each.last_iteration) for each in hopped.rounds] == [
        (6, 1, 1), (6, 2, 2), (6, 3, 3),
    ]  # fmt: skip
    assert [(each.visits, each.evaluations, each.repeated) for each in hopped.rounds] == [(48, 24, 0)] * 3
    assert (hopped.partitions, hopped.validation_partitions) == (4, 4)
    for before, after in itertools.pairwise(hopped.rounds):
        assert before.began_s + before.seconds == pytest.approx(after.began_s)
    assert all(each.gap is not None for each in hopped.rounds)


def test_on_one_worker_a_round_is_not_taken_for_many() -> None:
    simulation = simulated(SHA, {"partitions": 2}, cluster__slots_per_node=1, cluster__max_nodes=1)
    rounds = hopping(simulation).rounds
    assert [(each.trials, each.visits) for each in rounds] == [(9, 18), *[(3, 6)] * 3, *[(1, 2)] * 5]
    assert {each.workers for each in rounds} == {1}
    assert [each.gap for each in rounds] == pytest.approx([0.0] * 9, abs=1e-9)


def test_brackets_train_in_the_same_rounds() -> None:
    simulation = simulated(HYPERBAND)
    pools = simulation.core.state.pools
    hopped = hopping(simulation)
    assert len(pools) == 1
    assert sum(each.manner == "hopping" for each in hopped.rounds) == sum(
        pool_state.hop_state.rounds for pool_state in pools.values()
    )


@pytest.mark.parametrize("search", [RANDOM, ASHA, SHA])
def test_rounds_are_those_of_the_core(search: object) -> None:
    simulation = simulated(search, VALIDATED)
    rounds = simulation.core.state.pools[0].hop_state.rounds
    assert sum(each.manner == "hopping" for each in hopping(simulation).rounds) == rounds


def test_what_is_lost_is_counted_as_begun_again() -> None:
    simulation = simulated(faults=LOSSES, seed=1)
    assert any(life.lost for life in history(simulation).nodes)
    begun = Counter(
        (gang.trial, gang.visit.iteration, gang.visit.partition)
        for gang in history(simulation).gangs
        if gang.visit is not None
    )
    hopped = hopping(simulation)
    assert hopped.repeated == sum(begun.values()) - len(begun) > 0
    assert all(each.bound_s is None for each in hopped.rounds if each.repeated)
    assert hopping(simulated()).repeated == 0


def test_few_trials_train_together_and_that_is_a_round_of_its_own() -> None:
    simulation = simulated(SHA, cluster__max_nodes=2)
    hopped = hopping(simulation)
    together = [each for each in hopped.rounds if each.manner == "together"]
    assert together
    assert all((each.trials, each.visits, each.bound_s) == (1, 0, None) for each in together)
    assert together[-1].last_iteration == 9
    assert all(gang.visit is None for gang in history(simulation).gangs if gang.is_together)


def test_bytes_are_those_of_the_hops_beside_the_formula() -> None:
    simulation = simulated()
    gangs = history(simulation)
    assert hopping(simulation).moved_bytes is None  # a simulated model has no size
    hops = hopping(simulation).hops
    assert 0 < hops < 72
    sized = _with_sizes(simulation, 1000)
    assert sized.moved_bytes == 1000 * hops
    assert sized.formula_bytes == 1000 * (3 * 4 * 6) + 1000 * 6  # k m p |S| + m |S|
    assert sized.loads == 72
    assert sized.load_s == pytest.approx(0.1 * 72)
    assert len(gangs.gangs) == 72


def _with_sizes(simulation: Simulation, size: int) -> HoppingFigures:
    """The same run, if its visits reported the model size and the reading time."""

    def changed(entry: Entry) -> Entry:
        event = event_of(entry)
        if isinstance(event, ev.VisitEnded):
            return replace(entry, event_line=encode(replace(event, model_bytes=size, load_s=0.1)))
        return entry

    entries = [changed(entry) for entry in simulation.journal.read(simulation.record.run)]
    found = recall_hopping(entries, simulation.setup.terms)
    assert found is not None
    return found


def test_the_figures_are_plain_numbers_for_programs() -> None:
    data = hopping(simulated()).to_dict()
    assert {"visits", "hops", "repeated", "utilisation", "gap", "load_seconds", "rounds"} <= data.keys()
    rounds = data["rounds"]
    assert isinstance(rounds, list)
    assert {"seconds", "up_seconds", "bound_seconds", "utilisation", "gap", "trials"} <= rounds[0].keys()


def test_a_job_without_partitions_has_no_hopping() -> None:
    setup = prepare(job_of())
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=unnamed(setup))
    simulation.run()
    assert recall_hopping(simulation.journal.read(simulation.record.run), setup.terms) is None
    assert hopping_of(history(simulation), 2) is None


def scenes(simulation: Simulation) -> list[Snapshot]:
    """One after every event of a replay."""
    setup = simulation.setup
    course = promise_of(setup, None)
    subject = Subject(name="job", run="1", policy=setup.policy, promise=course)
    core = setup.make_core(0)
    found = []
    for entry in simulation.journal.read(simulation.record.run):
        core.handle(event_of(entry))
        found.append(take(subject, core.state, core.policy.progress(core.state), now_s=core.state.now_s))
        phases = count_phases(core.state)
        if found[-1].rounds:
            assert phases.get("running", 0) == found[-1].trials.training
            assert found[-1].trials.training >= found[-1].rounds[0].trials
    return found


def test_who_waits_between_two_visits_counts_as_training() -> None:
    seen = scenes(simulated(SHA, VALIDATED, cluster__max_nodes=1))
    hopped = [scene for scene in seen if scene.rounds]
    assert max(scene.trials.training for scene in hopped) == 9 > max(scene.nodes.busy for scene in hopped)
    first = hopped[0]
    assert str(first.rounds[0]) == "epoch 1 of 9: 0 of 36 visits"
    assert "epoch 1 of 9: 0 of 36 visits" in summary_line(first)
    assert {scene.rounds[0].evaluates for scene in hopped} == {False, True}
    assert {line.partitions for line in first.nodes.lines} == {8}
    assert {line.where.partition(" ")[0] for scene in hopped for line in scene.trials.lines} == {"", "on"}


def test_visits_go_up_within_a_round_and_stages_with_them() -> None:
    seen = scenes(simulated(SHA, cluster__max_nodes=1))
    done: dict[int, list[int]] = defaultdict(list)
    for scene in seen:
        for line in scene.rounds:
            assert 0 <= line.done <= line.visits
            done[line.epoch].append(line.done)
    assert all(values == sorted(values) for values in done.values())
    shares = [scene.stages[0].share for scene in seen if scene.rounds and scene.stages[0].is_present]
    assert shares == sorted(shares)
    assert len(set(shares)) > 10


def test_that_all_workers_take_one_model_is_reported_once() -> None:
    seen = scenes(simulated(SHA, cluster__max_nodes=2))
    texts = [each.text for pair in itertools.pairwise(seen) for each in changes(*pair)]
    together = [text for text in texts if "on all workers at once" in text]
    assert together
    assert any(scene.together for scene in seen)


def test_an_exported_trial_has_the_time_of_its_visits_and_runs_between_them() -> None:
    simulation = simulated()
    state = simulation.core.state
    core = simulation.setup.make_core(0)
    recorder = table_recorder(state.terms)
    statuses = set()
    for entry in simulation.journal.read(simulation.record.run):
        event = event_of(entry)
        recorder.take(event, core.handle(event))
        now = core.state.pools[0].hop_state.round if core.state.pools else None
        statuses |= {
            trial_line(recorder, core.state, core.state.trials[number]).status
            for number in (now.open if now else ())
        }
    assert statuses == {"running"}
    gangs = history(simulation).gangs
    for number, trial in core.state.trials.items():
        line = trial_line(recorder, core.state, trial)
        visits_s = sum(gang.until_s - gang.from_s for gang in gangs if gang.trial == number)
        assert line.seconds == line.slot_seconds == pytest.approx(visits_s)
        assert line.slots == 1
        assert line.ended_s is not None
