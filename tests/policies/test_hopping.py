"""Policies where models hop: one layout of the data for all trials, and rounds of all that are wished for."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from elastune.core import commands as do
from elastune.core.commands import Ending
from elastune.job.job import Job
from elastune.model.stages import hyperband, in_rounds
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import CheckedRun, checked_run, job_of

WORKERS = 4
UNIT_S = 10.0
"""Of a visit: an epoch of one trial takes four of them."""


def hopping(search: dict[str, object], **more: object) -> Job:
    return job_of(
        search=search,
        execution="hopper",
        data={"partitions": WORKERS, "partitions_per_worker": 1},
        profile={"iteration": WORKERS * UNIT_S},
        cluster={"slots_per_node": 1, "max_nodes": WORKERS, "price_per_hour": 60, "minimum_charge": 0},
        **more,
    )


def visits(run: CheckedRun) -> int:
    return sum(isinstance(command, do.Train) and command.visit is not None for _, command in run.commands)


class TestHyperband:
    """Cerebro, appendix E.1."""

    SEARCH: ClassVar[dict[str, object]] = {"algorithm": "hyperband", "max_iterations": 9, "eta": 3}

    def test_brackets_are_one_sequence_of_stages(self) -> None:
        (spec,) = in_rounds(hyperband(max_iterations=25, eta=3))
        shape = [(stage.trials, stage.iterations) for stage in spec.stages]
        assert shape == [(17, 3), (11, 6), (7, 3), (5, 13)]
        assert spec.brackets == ((9, 5, 3), (3, 5, 3), (3, 1, 3), (1, 1, 3))
        assert sum(stage.trials * stage.iterations for stage in spec.stages) == 203

    @pytest.mark.parametrize("policy", ["rubberband", "hyperband"])
    def test_all_brackets_hop_over_one_layout(self, policy: str) -> None:
        """Each of the four workers holds one partition: there is one copy of the data for all brackets."""
        run = checked_run(hopping(self.SEARCH), policy=policy)
        assert run.state.ended is Ending.COMPLETE
        assert len(run.state.where) <= WORKERS
        brackets = hyperband(max_iterations=9, eta=3)
        epochs = sum(stage.trials * stage.iterations for spec in brackets for stage in spec.stages)
        assert visits(run) == epochs * WORKERS
        done = Counter(trial.iteration for trial in run.state.trials.values())
        assert done[9] == sum(spec.stages[-1].trials for spec in brackets)

    def test_a_trial_is_compared_with_those_of_its_bracket(self) -> None:
        """Otherwise the trials of the last bracket, which has only one stage, would be stopped too."""
        run = checked_run(hopping(self.SEARCH))
        sizes = [spec.stages[0].trials for spec in hyperband(max_iterations=9, eta=3)]
        last = [trial for number, trial in run.state.trials.items() if number >= sum(sizes[:-1])]
        assert [trial.iteration for trial in last] == [9] * sizes[-1]

    def test_its_quote_is_kept(self) -> None:
        setup = prepare(hopping(self.SEARCH), samples=16)
        assert setup.quote is not None
        assert checked_run(hopping(self.SEARCH)).seconds == pytest.approx(setup.quote.jct_seconds)


class TestRounds:
    """Nine trials of four epochs on four workers: nine visits per worker and epoch, and no worker waits."""

    FULL_S = 9 * 4 * UNIT_S

    @pytest.mark.parametrize(
        "search",
        [
            {"algorithm": "random", "trials": 9, "max_iterations": 4},
            {"algorithm": "asha", "trials": 9, "min_iterations": 4, "max_iterations": 4},
            {"algorithm": "pbt", "trials": 9, "interval": 1, "max_iterations": 4},
        ],
    )
    def test_all_trials_that_are_wished_for_take_part(self, search: dict[str, object]) -> None:
        assert checked_run(hopping(search)).seconds == pytest.approx(self.FULL_S)

    def test_a_grid_is_drawn_to_its_end(self) -> None:
        nine = {"x": {"choice": [number / 10 for number in range(1, 10)]}}
        run = checked_run(hopping({"algorithm": "grid", "max_iterations": 4}, trainable=_score, space=nine))
        assert run.seconds == pytest.approx(self.FULL_S)

    def test_without_time_for_all_some_are_trained_to_the_end(self) -> None:
        search = {"algorithm": "random", "trials": 40, "max_iterations": 4}
        run = checked_run(hopping(search, deadline=2 * 4 * WORKERS * UNIT_S + 1))
        done = Counter(trial.iteration for trial in run.state.trials.values())
        assert done[4] == 2 * WORKERS

    def test_asha_promotes_when_the_round_is_over(self) -> None:
        """Nine trials at once: with the knowledge of all, the best three go on, as in Successive Halving."""
        search = {"algorithm": "asha", "trials": 9, "min_iterations": 1, "max_iterations": 9, "eta": 3}
        run = checked_run(hopping(search))
        assert Counter(trial.iteration for trial in run.state.trials.values()) == {1: 6, 3: 2, 9: 1}


def _score(config: dict[str, float], iteration: int) -> float:
    return config["x"] * iteration
