"""Simulated runs that end when a model is good enough: earlier, cheaper, and shown as such."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import elastune
from elastune.api.simulating import simulate_many
from elastune.core import events as ev
from elastune.core.commands import Ending
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.runs.quotes.policy_quote import PolicyQuote
from elastune.runs.quotes.quoting import predict, quote_policy
from elastune.runs.run_list import RunState
from elastune.setup.run_setup import SetupPurpose, prepare
from elastune.views.terminal.plan import render_quote
from elastune.views.terminal.policy import render_policy_quote
from elastune.views.terminal.simulation import render_campaign
from tests.policies.contract import UNKIND, WORLDS
from tests.policies.test_contract import POLICIES
from tests.runs.checked_run import SAMPLES, checked_run, job_of

SYNTHETIC = {
    "trainable": "synthetic:hypersched",
    "search": {"algorithm": "sha", "trials": 9, "max_iterations": 30},
    "profile": {"iteration": 10.0},
    "cluster": {"slots_per_node": 2, "price_per_hour": 36.0},
}


def shown(thing: object) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(thing)
    return console.export_text()


@pytest.mark.parametrize("name", POLICIES)
class TestEveryPolicy:
    def test_a_model_that_is_good_enough_ends_the_run_sooner_and_for_less(self, name: str) -> None:
        world = replace(WORLDS["calm"], changes={"cluster__minimum_charge": 0.0})
        full = checked_run(world.job(POLICIES[name]), seed=3)
        assert full.state.best is not None
        enough = full.state.best.metric - 0.004
        run = checked_run(world.job(POLICIES[name], stop_when=f"score >= {enough}"), seed=3)
        assert run.state.ended is Ending.TARGET
        assert run.state.best is not None
        assert run.state.best.metric >= enough
        assert run.seconds < full.seconds
        assert run.usd < full.usd

    def test_an_unreachable_target_changes_nothing_but_the_job(self, name: str) -> None:
        full, same = (checked_run(WORLDS["noise"].job(POLICIES[name], **more), seed=3)
                      for more in ({}, {"stop_when": "score > 1000"}))  # fmt: skip
        assert same.state.ended is full.state.ended
        assert same.log()[1:] == full.log()[1:]

    def test_it_holds_under_faults(self, name: str) -> None:
        job = WORLDS["faults"].job(POLICIES[name], stop_when="score >= 0.5")
        run = checked_run(job, seed=4, faults=UNKIND)
        assert run.state.ended is Ending.TARGET
        assert run.state.best is not None
        assert run.state.best.metric >= 0.5


def test_the_least_is_good_enough_where_the_mode_is_min() -> None:
    run = checked_run(job_of(mode="min", stop_when="score < 0.3"))
    assert run.state.ended is Ending.TARGET
    assert run.state.best is not None
    assert run.state.best.metric < 0.3


def test_the_target_is_noticed_before_the_next_regular_save() -> None:
    one = {"search__trials": 1, "checkpoint_every": 10_000.0, "search__max_iterations": 100}
    run = checked_run(job_of(lambda config, iteration: float(iteration), stop_when="score >= 4", **one))
    (note,) = run.notes("target")
    assert note == "score >= 4: trial 0 has 4 after iteration 4"
    rows = [row for event, _ in run.told if isinstance(event, ev.Progressed) for row in event.rows]
    assert len(rows) == 5  # the fifth had begun when the fourth was durable


def test_the_trainables_own_metric_and_mode_have_to_fit() -> None:
    fine = Job.from_dict({**SYNTHETIC, "stop_when": "score >= 0.5"})
    assert prepare(fine, samples=SAMPLES).terms.target == fine.stop_when
    with pytest.raises(JobError, match="metric is 'loss'; this trainable has only 'score'"):
        prepare(Job.from_dict({**SYNTHETIC, "stop_when": "loss <= 0.5"}), samples=SAMPLES)
    with pytest.raises(
        JobError, match=r"stop_when is 'score <= 0\.5', but mode is max; expected >= or >, or"
    ):
        prepare(Job.from_dict({**SYNTHETIC, "stop_when": "score <= 0.5"}), samples=SAMPLES)


class TestQuotes:
    SEARCH: Mapping[str, object] = {"algorithm": "asha", "trials": 9, "max_iterations": 9}

    def test_a_prediction_is_of_the_whole_search(self) -> None:
        """Policy simulations rank trials at random between 0 and 1; some of them would reach this."""
        plain, early = (prepare(job_of(search=self.SEARCH, **more), samples=SAMPLES)
                        for more in ({}, {"stop_when": "score > 0.1"}))  # fmt: skip
        assert predict(early) == predict(plain)

    def test_a_quote_says_that_it_may_end_earlier(self) -> None:
        words = "as soon as a model has score > 0.9; the numbers are without that"
        planned = elastune.quote(job_of(stop_when="score > 0.9"), samples=SAMPLES)
        assert not isinstance(planned, PolicyQuote)
        assert words in shown(render_quote(planned))
        assert planned.to_dict()["stop_when"] == "score > 0.9"
        quoted = quote_policy(job_of(search=self.SEARCH, stop_when="score > 0.9"))
        assert words in shown(render_policy_quote(quoted))
        assert quoted.to_dict()["stop_when"] == "score > 0.9"

    def test_a_quote_without_it_says_nothing_of_it(self) -> None:
        quote = quote_policy(job_of(search=self.SEARCH))
        assert "stop_when" not in quote.to_dict()
        assert "or earlier" not in shown(render_policy_quote(quote))

    def test_a_job_without_trainable_and_mode_is_quoted_by_the_comparison(self) -> None:
        job = job_of(None, search=self.SEARCH, mode=None, metric=None, stop_when="loss < 0.1")
        assert prepare(job, samples=SAMPLES, purpose=SetupPurpose.QUOTE).terms.mode == "min"


def test_status_and_reports_know_the_ending(tmp_path: Path) -> None:
    job = Job.from_dict({**SYNTHETIC, "stop_when": "score >= 0.05"})
    campaign = simulate_many(job, folder=tmp_path)
    assert campaign.results[0].ending is Ending.TARGET
    assert "simulated: reached the target" in shown(render_campaign(campaign))
    (line,) = elastune.list_runs(tmp_path).runs
    assert line.state is RunState.TARGET
    status = elastune.status("last", folder=tmp_path, audit=True)
    assert status.state is RunState.TARGET
    assert status.audit is not None
    assert status.audit.is_clean
    assert "stop_when: score >= 0.05" in status.folder.job.read_text(encoding="utf-8")
