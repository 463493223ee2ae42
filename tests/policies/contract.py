"""What every policy owes, whatever it decides. `tests/policies/test_contract.py` lists them, one line each.

Each world is a small job that some policy once found hard. Runs are `CheckedRun`s: after every event the
invariants of the trial by fire hold (slots, nodes, money, checkpoints), and a shadow that is told nothing but
the journal's lines commands the same and ends in the same state, memory of the policy included.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.core.policy import Progress
from elastune.core.trials import Phase
from elastune.job.job import Job
from elastune.model.metric import Mode
from elastune.providers.simulated_faults import NodeFaults
from elastune.runtime.simulated.cloud import NO_FAULTS, Faults
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import SAMPLES, CheckedRun, checked_run, job_of, learn
from tests.thoroughness import most_telling

# In these everything fits with time to spare.
LIMITS: dict[str, dict[str, object]] = {
    "seer": {"deadline": 900.0, "budget": 30.0},
    "e-hyperband": {"deadline": 900.0, "budget": 30.0},
    "e-grid": {"deadline": 900.0, "budget": 30.0},
}
NEEDED = ("deadline",)
NOISE = {"mean": 10.0, "sd": 3.0}
BY_THE_SECOND = {"cluster__minimum_charge": 0.0}


def sometimes_diverges(config: Mapping[str, float], iteration: int) -> float:
    """The best configurations are NaN from their second iteration on."""
    return math.nan if config["x"] > 0.6 and iteration > 1 else learn(config, iteration)


def diverges(config: Mapping[str, float], iteration: int) -> float:
    return math.nan


def returns_early(config: Mapping[str, float]) -> object:
    for iteration in range(1, 4):
        yield learn(config, iteration)


@dataclass(frozen=True)
class World:
    """`endings` are those that make sense there."""

    changes: Mapping[str, object] = field(default_factory=dict)
    faults: Faults = NO_FAULTS
    endings: frozenset[Ending] = frozenset({Ending.COMPLETE})
    learning: Callable[..., object] = learn

    def job(self, search: Mapping[str, object], **changes: object) -> Job:
        """A policy that needs limits has them where the world sets none (`LIMITS`)."""
        given = {f"search__{key}": value for key, value in search.items()}
        changed = {**self.changes, **changes}
        if "trials" in search and search["trials"] is None:
            changed.pop("search__trials", None)
        limits = LIMITS.get(str(search["algorithm"]), {})
        if "deadline" in changed or "budget" in changed:
            limits = {key: value for key, value in limits.items() if key in NEEDED}
        return job_of(self.learning, **{**limits, **given, **changed})


UNKIND = Faults(
    nodes=NodeFaults(
        lost_per_hour=6.0,
        noticed_per_hour=6.0,
        notice_s=20.0,
        refused=0.3,
        boot_failure=0.1,
        straggler=0.2,
    ),
    crash=0.1,
    driver_per_hour=6.0,
)
IN_TIME = frozenset({Ending.COMPLETE, Ending.DEADLINE})
IN_MONEY = frozenset({Ending.COMPLETE, Ending.BUDGET})
WORLDS = {
    "calm": World(),
    "noise": World({"profile__iteration": NOISE, "profile__spread": 0.2}),
    "faults": World({"retries": 1}, UNKIND),
    "deadline": World({"deadline": 150.0, "profile__iteration": NOISE}, endings=IN_TIME),
    "deadline and faults": World({"deadline": 300.0}, UNKIND, IN_TIME),
    "budget": World({"budget": 3.0, "profile__iteration": NOISE, **BY_THE_SECOND}, endings=IN_MONEY),
    "budget and faults": World(
        {"budget": 6.0, **BY_THE_SECOND}, replace(UNKIND, driver_per_hour=0.0), IN_MONEY
    ),
    "both": World({"deadline": 300.0, "budget": 5.0, **BY_THE_SECOND}, endings=IN_TIME | IN_MONEY),
    "both and faults": World(
        {"deadline": 300.0, "budget": 5.0, **BY_THE_SECOND},
        replace(UNKIND, driver_per_hour=0.0),
        IN_TIME | IN_MONEY,
    ),
    "exhausted": World({"space": {"x": {"choice": [0.1, 0.7, 0.4, 0.2]}}, "search__sampler": "grid"}),
    "one trial": World({"search__trials": 1}),
    "one node": World({"cluster__max_nodes": 1}),
    "a fixed cluster": World({"cluster__max_nodes": None, "cluster__nodes": 2}),
    "gangs larger than a node": World({"search__min_slots_per_trial": 3}),
    "per function": World(
        {"cluster__billing": "function", "cluster__data_gb": 1, "cluster__data_price_per_gb": 0.1}
    ),
    "per function and budget": World({"cluster__billing": "function", "budget": 2.0}, endings=IN_MONEY),
    "no latencies": World({"profile": {"iteration": 10.0}, "cluster__queue": None, "cluster__init": None}),
    "trainings that return": World(learning=returns_early),
    "trainings that diverge": World(learning=sometimes_diverges),
    "a capacity": World(faults=Faults(nodes=NodeFaults(capacity=1))),
}

PROGRESS_WORLDS = ("deadline and faults", "trainings that diverge", "both", "faults", "a capacity", "calm")


class PolicyContract:
    """Derive a class `Test...` and give it a fixture `search`: the search section of a job."""

    @pytest.mark.parametrize("world", WORLDS.values(), ids=list(WORLDS))
    def test_a_run_ends_with_the_best_that_was_saved_and_keeps_every_promise(
        self, search: Mapping[str, object], world: World
    ) -> None:
        run = checked_run(world.job(search), seed=3, faults=world.faults)
        state = run.state
        assert state.ended in world.endings
        assert state.ended_s is not None
        deadline, budget = state.terms.limits.deadline_s, state.terms.limits.budget_usd
        assert deadline is None or run.seconds <= deadline * (1 + 1e-9)
        assert budget is None or run.usd <= budget * (1 + 1e-9)
        assert all(trial.phase.is_over for trial in state.trials.values())
        assert state.best is not None
        assert state.best.metric == best_saved(run)
        assert run.wishes_for_the_dead == []

    @pytest.mark.parametrize("mode", Mode)
    def test_the_best_is_the_best_by_the_jobs_mode(self, search: Mapping[str, object], mode: Mode) -> None:
        world = WORLDS["noise"]
        run = checked_run(world.job(search, mode=mode.value), seed=5)
        assert run.state.best is not None
        assert run.state.best.metric == best_saved(run)
        drawn = {number: trial.config["x"] for number, trial in run.state.trials.items()}
        choose = max if mode is Mode.MAX else min
        assert drawn[run.state.best.trial] == choose(drawn.values())  # type: ignore[type-var]

    @most_telling("name", "deadline and faults", "faults", "noise", quick=1)
    def test_the_seed_decides_the_journal(self, search: Mapping[str, object], name: str) -> None:
        world = WORLDS[name]
        setup = prepare(world.job(search), samples=SAMPLES)
        one, same, other = (
            checked_run(setup.job, setup=setup, seed=seed, faults=world.faults).sha256 for seed in (1, 1, 2)
        )
        assert one == same
        assert one != other

    def test_all_trials_that_fail_leave_no_best_and_end_the_run(self, search: Mapping[str, object]) -> None:
        run = checked_run(World(learning=diverges).job(search))
        assert run.state.best is None
        phases = [trial.phase for trial in run.state.trials.values()]
        assert set(phases) <= {Phase.FAILED, Phase.STOPPED}  # after some that fail alike no others are tried
        assert phases.count(Phase.FAILED) >= min(5, len(phases))

    def test_a_trial_that_diverges_has_failed_says_why_and_is_not_the_best(
        self, search: Mapping[str, object]
    ) -> None:
        run = checked_run(World(learning=sometimes_diverges).job(search), seed=3)
        failed = [trial for trial in run.state.trials.values() if trial.phase is Phase.FAILED]
        assert failed
        for trial in failed:  # a fork goes on where its parent was, and diverges later
            text = f"score is nan after iteration {max(1, trial.inherited) + 1}; the training has diverged"
            assert trial.error == text
            assert f"trial {trial.number}: {text}" in run.notes("failed")
        assert len(run.notes("failed")) == len(failed)
        assert run.state.best is not None
        assert math.isfinite(run.state.best.metric)

    def test_no_trial_trains_beyond_the_end_of_the_search(self, search: Mapping[str, object]) -> None:
        run = checked_run(WORLDS["calm"].job(search))
        most = getattr(run.setup.search, "max_iterations")  # noqa: B009
        assert max(trial.iteration for trial in run.state.trials.values()) <= most

    def test_gangs_have_the_slots_that_the_job_allows(self, search: Mapping[str, object]) -> None:
        world = World({"search__min_slots_per_trial": 2, "search__max_slots_per_trial": 4})
        run = checked_run(world.job(search))
        sizes = {len(c.gang) for _, c in run.commands if isinstance(c, do.Train)}
        assert sizes <= {2, 3, 4}

    @most_telling("name", *PROGRESS_WORLDS, quick=3)
    def test_progress_is_known_at_every_moment_goes_on_and_changes_nothing(
        self, search: Mapping[str, object], name: str
    ) -> None:
        """That it changes nothing the shadow knows, which is never asked."""
        world = WORLDS[name]
        run = CheckedRun(prepare(world.job(search), samples=SAMPLES), seed=3, faults=world.faults)
        checks_progress(run, None)
        run.start()
        before = checks_progress(run, None)
        while run.step():
            before = checks_progress(run, before)
        run.compare("shadow", run.shadow)
        assert all(track.stage is None for track in before.tracks)

    def test_a_stop_saves_and_ends(self, search: Mapping[str, object]) -> None:
        run = CheckedRun(prepare(WORLDS["calm"].job(search), samples=SAMPLES))
        run.start()
        while run.state.best is None:
            run.step()
        for command in run._think(ev.StopAsked(at_s=run.body.now_s, reason="enough")):
            run.body.carry_out(command)
        while run.step():
            pass
        run.witness.check_over()
        assert run.state.ended is Ending.STOPPED
        assert run.state.best.metric == best_saved(run)

    @most_telling("seed", *range(3), quick=2)
    def test_an_extension_at_any_time_is_used_and_no_limit_breaks(
        self, search: Mapping[str, object], seed: int
    ) -> None:
        """The invariants of the trial by fire hold after every event, by the limits in force then."""
        luck = random.Random(seed)
        setup = prepare(TIGHT.job(search), samples=SAMPLES)
        usual = checked_run(setup.job, setup=setup, seed=seed, faults=TIGHT.faults)
        run = CheckedRun(setup, seed=seed, faults=TIGHT.faults)
        run.start()
        for _ in range(luck.randrange(1, usual.state.events)):
            run.step()
        granted = run.grant(longer(run)) if run.state.ended is None else False
        while run.step():
            pass
        run.witness.check_over()
        run.compare("shadow", run.shadow)
        if granted and usual.state.ended is not Ending.COMPLETE:
            assert run.state.iterations > usual.state.iterations
            assert run.seconds > usual.seconds

    @pytest.mark.parametrize("seed", range(2))
    def test_a_run_that_was_cut_off_goes_on_from_its_checkpoints_after_an_extension(
        self, search: Mapping[str, object], seed: int
    ) -> None:
        run = checked_run(TIGHT.job(search), seed=seed, faults=TIGHT.faults)
        before = {number: trial.saved for number, trial in run.state.trials.items()}
        iterations, cut = run.state.iterations, dict(run.state.changes.cut)
        refused = run.core.refusal(longer(run))
        if run.state.ended is Ending.COMPLETE and refused is not None:
            assert "warm_start" in refused
            return
        assert run.reopen(longer(run))
        run.witness.check_over()
        run.compare("shadow", run.shadow)
        assert run.state.ended is not None
        assert run.state.iterations > iterations
        assert all(run.state.trials[number].saved >= saved for number, saved in before.items())
        started = {c.trial for _, c in run.commands if isinstance(c, do.Train) and c.after_iteration}
        assert not cut or started & cut.keys() or len(run.state.trials) > len(before)

    def test_a_trial_that_a_person_stops_is_over_and_the_others_go_on(
        self, search: Mapping[str, object]
    ) -> None:
        run = CheckedRun(prepare(WORLDS["calm"].job(search), samples=SAMPLES))
        run.start()
        while run.state.best is None:
            run.step()
        number = run.state.best.trial
        request = ev.TrialStopAsked(at_s=run.body.now_s, request_id="1", trial=number, reason="enough")
        if run.core.refusal(request) is not None:  # it is trained already
            return
        assert run.grant(request)
        assert run.state.trials[number].phase is Phase.STOPPED
        while run.step():
            pass
        run.witness.check_over()
        assert run.state.trials[number].phase is Phase.STOPPED
        assert run.wishes_for_the_dead == []
        assert run.state.best.metric == best_saved(run)

    def test_more_trials_and_configurations_are_used_or_refused_with_a_reason(
        self, search: Mapping[str, object]
    ) -> None:
        run = CheckedRun(prepare(WORLDS["calm"].job(search), samples=SAMPLES))
        run.start()
        while run.state.best is None:
            run.step()
        config = ev.ConfigAdded(at_s=run.body.now_s, request_id="1", config={"x": 0.987})
        more = ev.RunExtended(at_s=run.body.now_s, request_id="2", more_trials=3)
        refused = [run.core.refusal(config), run.core.refusal(more)]
        granted = run.grant(config), run.grant(more)
        usual = checked_run(WORLDS["calm"].job(search))
        while run.step():
            pass
        assert [why is None for why in refused] == list(granted)
        assert all(why is None or len(why) > 20 for why in refused)
        given = [trial for trial in run.state.trials.values() if trial.config["x"] == 0.987]
        assert len(given) == granted[0]
        assert len(run.state.trials) >= len(usual.state.trials) + 3 * granted[1]


TIGHT = World(
    {"deadline": 140.0, "budget": 2.8, "profile__iteration": NOISE, "cluster__max_nodes": 2, **BY_THE_SECOND},
    Faults(nodes=NodeFaults(straggler=0.7, straggler_factor=4.0)),  # a plan that fits is cut off, too
    endings=IN_TIME | IN_MONEY,
)


def longer(run: CheckedRun) -> ev.RunExtended:
    """Much more time and money."""
    return ev.RunExtended(at_s=run.body.now_s, request_id="longer", deadline_s=500.0, budget_usd=10.0)


def checks_progress(run: CheckedRun, before: Progress | None) -> Progress:
    """Present stages never go back; what is to come is in order and ahead."""
    state = run.core.state
    pools = tuple(state.pools)
    progress = run.core.policy.progress(state)
    assert tuple(state.pools) == pools
    names = [stage.name for track in progress.tracks for stage in track.stages]
    assert len(set(names)) == len(names)
    for track in progress.tracks:
        assert 0.0 <= track.share <= 1.0
        to_come = track.stages[track.present :]
        assert all(stage.begin_s <= stage.end_s and stage.nodes > 0 < stage.trials for stage in to_come)
        for stage, following in itertools.pairwise(to_come):
            assert following.begin_s == pytest.approx(stage.end_s)
            assert following.begin_usd == pytest.approx(stage.begin_usd + stage.usd)
    for each in progress.upcoming:
        assert each.text
        assert each.at_s is not None
        assert each.at_s >= state.now_s
    if before is not None and len(before.tracks) == len(progress.tracks):
        for was, now in zip(before.tracks, progress.tracks, strict=True):
            assert now.present >= was.present
    return progress


def best_saved(run: CheckedRun) -> float:  # noqa: C901  one case per message
    """Counted from the journal alone: the best row whose checkpoint was told to be durable."""
    values: dict[int, list[float]] = {}
    saved: dict[int, int] = {}
    present: dict[int, int] = {}
    found: list[float] = []
    forks: dict[int, tuple[int, int]] = {}
    for event, commands in run.told:
        match event:
            case ev.TrialsSampled():
                for trial, _ in event.trials:
                    if trial in forks:
                        parent, iteration = forks[trial]
                        values[trial] = values[parent][:iteration]
                        saved[trial] = iteration
            case ev.Progressed() if present.get(event.trial) == event.generation:
                mine = values.setdefault(event.trial, [])
                for row in event.rows:
                    value = row.metrics["score"]
                    if not math.isfinite(value):
                        break
                    mine.append(value)
                kept = [iteration for iteration in event.saved if iteration <= len(mine)]
                found += [mine[iteration - 1] for iteration in kept]
                saved[event.trial] = max([saved.get(event.trial, 0), *kept])
            case ev.TrialPaused() if present.get(event.trial) == event.generation:
                mine = values.get(event.trial, [])
                saved[event.trial] = len(mine)
                found += mine[-1:]
        for command in commands:
            if isinstance(command, do.Train) and present.get(command.trial) != command.generation:
                present[command.trial] = command.generation
                del values.setdefault(command.trial, [])[saved.get(command.trial, 0) :]
            elif isinstance(command, do.Fork):
                forks[command.trial] = command.parent, command.iteration
            elif isinstance(command, do.Stop):
                present.pop(command.trial, None)
    assert found
    return max(found) if run.setup.terms.mode is Mode.MAX else min(found)
