"""What a setup is for decides what of the training has to be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from elastune.curves.source import UnknownSource
from elastune.errors import JobError
from elastune.job.job import Job, load_job
from elastune.model.metric import Mode
from elastune.runs.quotes.quoting import predict
from elastune.setup.run_setup import SetupPurpose, prepare
from tests.cli.commands import elastune
from tests.runs.checked_run import SAMPLES, job_of

JOB = """
trainable: digits.py:{name}
space: {{lr: {{float: [0.0, 1.0]}}}}
metric: accuracy
search: {search}
deadline: 1h
budget: 30
profile: {{iteration: 10s}}
cluster: {{slots_per_node: 2, price_per_hour: 36}}
"""
SHA = "{algorithm: sha, trials: 9, max_iterations: 9}"
REAL = """
class Digits:
    def setup(self, config, worker): ...
    def step(self): return {"accuracy": 1.0}
    def save(self): return {}
    def load(self, state): ...

def train(config, worker, state):
    yield {"accuracy": 1.0}, dict
"""
BROKEN = "raise RuntimeError('this machine has no torch')"


def write(folder: Path, code: str, name: str = "Digits", search: str = SHA) -> Path:
    (folder / "digits.py").write_text(code, encoding="utf-8")
    path = folder / "job.yaml"
    path.write_text(JOB.format(name=name, search=search), encoding="utf-8")
    return path


def real(**changes: object) -> Job:
    """Of a trainable that is nowhere."""
    return job_of(**{"trainable": "nowhere.py:Digits", **changes})


@pytest.mark.parametrize("search", [SHA, SHA.replace("sha", "asha"), "{algorithm: seer}"])
def test_a_plan_and_a_quote_do_not_import_the_trainable(tmp_path: Path, search: str) -> None:
    done = elastune("plan", write(tmp_path, BROKEN, search=search), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "$" in done.stdout


@pytest.mark.parametrize(
    ("name", "what"),
    [("Digits", "this is a class"), ("train", "this is a generator function f(config, worker, state)")],
)
def test_what_is_for_real_runs_cannot_be_simulated_and_what_to_do_is_reported(
    tmp_path: Path, name: str, what: str
) -> None:
    done = elastune("simulate", write(tmp_path, REAL, name), cwd=tmp_path)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"digits.py:{name}: {what}; expected a function f(config, iteration), or" in said
    assert "file of its curves; `elastune run` trains it, `elastune plan` says what that will take" in said


class TestRun:
    def test_everything_but_the_training_comes_from_the_job(self) -> None:
        job = real(search__sampler="grid", space={"x": [0.1, 0.4, 0.7]}, start_configurations=[{"x": 0.7}],
                   search__trials=3)  # fmt: skip
        setup = prepare(job, samples=SAMPLES, purpose=SetupPurpose.RUN)
        tuning = setup.tuning
        assert (tuning.metric, tuning.mode, tuning.space) == ("score", Mode.MAX, job.space)
        assert isinstance(tuning.trainable, UnknownSource)
        sampler = tuning.make_sampler(0)
        assert [sampler.ask(number) for number in range(4)] == [{"x": 0.7}, {"x": 0.1}, {"x": 0.4}, None]
        assert setup.quote is not None
        assert predict(setup).cost > 0.0

    def test_the_terms_are_those_of_a_simulation(self) -> None:
        changes = {"deadline": 900.0, "budget": 30.0, "retries": 2, "stop_when": "score >= 0.9"}
        run = prepare(real(**changes), samples=SAMPLES, purpose=SetupPurpose.RUN)
        assert run.terms.reserve_s > 0.0
        assert replace(run.terms, reserve_s=0.0) == prepare(job_of(**changes), samples=SAMPLES).terms

    def test_a_policy_brings_its_sampler(self) -> None:
        bohb = real(search={"algorithm": "bohb", "max_iterations": 9})
        assert prepare(bohb, samples=SAMPLES, purpose=SetupPurpose.RUN).tuning.sampler.kind == "tpe"

    def test_a_class_may_be_given_in_python(self) -> None:
        class Digits:
            pass

        job = job_of(Digits)
        assert str(job.to_dict()["trainable"]).endswith(".<locals>.Digits")
        assert prepare(job, samples=SAMPLES, purpose=SetupPurpose.RUN).tuning.metric == "score"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"metric": None}, "metric is missing; expected the name of what the trainable reports"),
            ({"metric": "val_loss", "mode": None}, "mode is missing, and the metric 'val_loss' looks like"),
            ({"space": None}, "space is missing; expected the hyperparameters to search"),
            ({"trainable": None}, "trainable is missing; expected a class or a generator function"),
            ({"trainable": "synthetic:hypersched"}, "cannot train; expected a class"),
            ({"trainable": "curves.npz", "space": None}, "`elastune simulate` runs this job in virtual time"),
        ],
    )  # fmt: skip
    def test_what_is_missing_is_reported_before_anything_starts(
        self, changes: dict[str, object], message: str
    ) -> None:
        with pytest.raises(JobError) as caught:
            prepare(real(**changes), samples=SAMPLES, purpose=SetupPurpose.RUN)
        assert message in str(caught.value)


class TestQuote:
    ASHA: Mapping[str, object] = {"algorithm": "asha", "trials": 9, "max_iterations": 9}

    def test_a_space_that_is_a_function_is_not_imported_either(self) -> None:
        quoted = real(search=self.ASHA, space="nowhere.py:suggest", start_configurations=[{"lr": 1.0}])
        known = predict(prepare(job_of(search=self.ASHA), samples=SAMPLES))
        assert predict(prepare(quoted, samples=SAMPLES, purpose=SetupPurpose.QUOTE)) == known

    def test_it_needs_the_metric_of_a_real_training(self) -> None:
        with pytest.raises(JobError, match="metric is missing; expected the name of what the trainable"):
            prepare(real(metric=None, search=self.ASHA), purpose=SetupPurpose.QUOTE)

    def test_a_table_is_still_read(self, tmp_path: Path) -> None:
        job = job_of(search=self.ASHA, trainable=str(tmp_path / "gone.npz"), space=None)
        with pytest.raises(JobError, match=r"gone\.npz"):
            prepare(job, purpose=SetupPurpose.QUOTE)


def test_reading_a_job_does_not_import_its_trainable(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, BROKEN))
    assert job.trainable == f"{tmp_path}/digits.py:Digits"
    assert Job.from_dict(job.to_dict()) == job
