"""Checks in their own processes: through the command, the API, and before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import elastune
from elastune.api.checking import as_checked, checked
from elastune.api.profiling import measured
from elastune.checks.judging import TimeLimit, judge_training
from elastune.checks.machine import judge_memory, judge_slots
from elastune.checks.probing import CheckProgress, probe
from elastune.checks.report import CheckReport, CheckStatus, FirstMeasurement
from elastune.checks.sizes import HeldValue, carried_by, measure_bytes
from elastune.errors import JobError
from elastune.job.job import Job
from tests.checks.looking import job_of, order_of
from tests.cli.commands import elastune as command


def statuses(report: CheckReport) -> dict[str, CheckStatus]:
    return {each.about: each.status for each in report.findings}


def counted(tmp_path: Path) -> Job:
    """A right trainable that writes a line for each iteration."""
    steps = {"choice": [str(tmp_path / "steps")]}
    return job_of("good", space={"lr": {"float": [0.01, 0.1]}, "steps": steps}, profile=None)


def steps_of(tmp_path: Path) -> int:
    return len((tmp_path / "steps").read_text().splitlines())


def test_a_check_takes_three_iterations_measures_them_and_is_not_repeated_before_a_run(
    tmp_path: Path,
) -> None:
    job, said = counted(tmp_path), list[str]()
    assert as_checked(job, address=None, folder=tmp_path / "runs") is job
    report = elastune.check(job, folder=tmp_path / "runs")
    assert report.is_fine, report.findings
    assert report.iterations == steps_of(tmp_path) == 3
    assert report.measured is not None
    assert len(report.measured.iterations_s) == 2
    assert CheckReport.of(json.loads(json.dumps(report.to_dict()))) == report

    held, kept = checked(job, wanted=True, address=None, folder=tmp_path / "runs", say=said.append)
    assert kept == report
    assert steps_of(tmp_path) == 3
    assert held.search.max_slots_per_trial == 1
    assert as_checked(job, address=None, folder=tmp_path / "runs") == held
    assert not said, "it has no model that a gang could share"
    gangs = next(each for each in report.findings if each.about == "gangs")
    assert gangs.status is CheckStatus.NOTE
    assert "no torch model" in gangs.text

    planned, first = measured(held, folder=tmp_path / "runs", first=report.measured)
    assert first is report.measured
    assert planned.is_measured


def test_a_script_with_its_own_data_loader_gets_one_slot_from_the_command(tmp_path: Path) -> None:
    """Two independent trainings were once paid as one."""
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_of("OwnLoader").to_dict()))
    done = command("check", "job.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["is_fine"]
    assert report["most_slots"] == 1
    gangs = next(each for each in report["findings"] if each["about"] == "gangs")
    assert gangs["status"] == "warning"
    assert gangs["place"]["code"] == "functional.cross_entropy(scores, labels).backward()"


def test_a_job_that_asks_for_gangs_is_warned_if_there_is_no_model_to_share(tmp_path: Path) -> None:
    search = {"algorithm": "random", "trials": 4, "max_iterations": 8, "max_slots_per_trial": 2}
    said: list[str] = []
    held, _ = checked(
        job_of("good", search=search), wanted=True, address=None, folder=tmp_path, say=said.append
    )
    assert held.search.max_slots_per_trial == 1
    assert any(
        "warning: gangs: every trial trains on one slot" in line and "worker.sum" in line for line in said
    )


def test_two_workers_that_share_may_be_any_number(tmp_path: Path) -> None:
    said: list[str] = []
    job = job_of("CountsBatches")  # its loops cannot be shortened
    held, report = checked(job, wanted=True, address=None, folder=tmp_path, say=said.append)
    assert report is not None
    assert report.most_slots is None
    assert held.search.max_slots_per_trial is None


def test_a_failure_refuses_the_run_and_the_command_ends_with_code_2(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_of("starts_again").to_dict()))
    done = command("check", "job.yaml", cwd=tmp_path)
    assert done.returncode == JobError.exit_code
    assert "failed" in done.stdout
    assert "subjects.py:" in done.stdout
    log = next((tmp_path / "elastune-runs" / ".checks").glob("*.log"))
    assert "a trial goes on" in log.read_text()
    refused = command("run", "job.yaml", "--yes", cwd=tmp_path)
    assert refused.returncode == JobError.exit_code
    assert "failed the check before the run" in refused.stderr
    assert "the saved state is never read" in refused.stderr
    assert [each.name for each in (tmp_path / "elastune-runs").iterdir()] == [".checks"]


@pytest.mark.parametrize(
    ("name", "search", "message"),
    [
        (
            "black_box",
            {"algorithm": "random", "trials": 4, "max_iterations": 6},
            r"search\.max_iterations is 6, but .*black_box returns its metrics, so it is called once",
        ),
        (
            "reports_only",
            {"algorithm": "pbt", "trials": 4, "max_iterations": 6},
            r"search\.algorithm is pbt, which copies models, but the trainable cannot be saved; choose asha",
        ),
    ],
)
def test_a_search_that_does_not_suit_the_trainable_is_refused_before_anything_is_trained(
    tmp_path: Path, name: str, search: dict[str, Any], message: str
) -> None:
    """Check passed it, and the run refused it after the training had been measured."""
    space = {"lr": {"float": [0.01, 0.1]}, "steps": {"choice": [str(tmp_path / "steps")]}}
    job, runs = job_of(name, space=space, search=search, profile=None), tmp_path / "runs"
    for attempt in (
        lambda: elastune.check(job, folder=runs),
        lambda: elastune.tune(job, folder=runs, progress=False),
        lambda: elastune.tune(job, folder=runs, progress=False, check=False),
    ):
        with pytest.raises(JobError, match=message):
            attempt()
    assert not runs.exists()
    assert not (tmp_path / "steps").exists()


def test_a_hang_is_cut_and_its_line_is_told(tmp_path: Path) -> None:
    output, said = tmp_path / "output", list[str]()
    for most_s in (4.0, 12.0, 36.0):  # a busy machine may need longer to get there
        seen = probe(order_of("hangs", tmp_path, most_s=most_s), output, said.append)
        if seen.cut_at == "iteration 1":
            break
    (finding,) = judge_training(seen, None, "accuracy", TimeLimit(8.0, is_asked=True))
    assert finding.status is CheckStatus.FAILED
    assert "iteration 1 had not ended when the time limit of 8.0 s was over" in finding.text
    assert finding.place is not None
    assert finding.place.code == "time.sleep(3600)"
    assert "about to wait" in output.read_text()
    (slow,) = judge_training(seen, None, "accuracy", TimeLimit(8.0))
    assert slow.status is CheckStatus.WARNING
    assert any("checking the trainable: iteration 1" in line for line in said)


def test_a_library_that_takes_plain_dicts_only_gets_one(tmp_path: Path) -> None:
    """What is read of a configuration is noted by a dict of another kind."""
    report = elastune.check(job_of("needs_a_plain_dict"), folder=tmp_path)
    assert report.is_fine, report.findings


def test_a_crash_of_the_training_is_told(tmp_path: Path) -> None:
    seen = probe(order_of("dies", tmp_path), tmp_path / "output", lambda _: None)
    assert seen.solo is not None
    assert seen.solo.fault is not None
    assert "crashed with SIGSEGV" in seen.solo.fault.error


def test_a_configuration_that_diverges_at_once_is_followed_by_another(tmp_path: Path) -> None:
    order = order_of("diverges_sometimes", tmp_path, {"lr": 0.9}, {"lr": 0.1})
    seen = probe(order, tmp_path / "output", lambda _: None)
    findings = [
        each for each in judge_training(seen, None, "accuracy", TimeLimit(60.0)) if each.about == "metric"
    ]
    assert [each.status for each in findings] == [CheckStatus.WARNING, CheckStatus.FINE]
    assert "with {'lr': 0.9}" in findings[0].text


@pytest.mark.parametrize(("name", "limit"), [("good", 1), ("SameData", 4)])
def test_without_a_check_trials_get_one_slot_or_what_the_trainable_declares(
    tmp_path: Path, name: str, limit: int
) -> None:
    said: list[str] = []
    job = job_of(name, cluster={"slots_per_node": 8, "max_nodes": 1, "price_per_hour": 1})
    held, report = checked(job, wanted=False, address=None, folder=tmp_path, say=said.append)
    assert report is None
    assert held.search.max_slots_per_trial == limit
    assert bool(said) == (limit == 1)


def test_a_job_that_wants_gangs_of_what_cannot_share_is_refused(tmp_path: Path) -> None:
    job = job_of(
        "good", search={"algorithm": "random", "trials": 2, "max_iterations": 4, "min_slots_per_trial": 2}
    )
    with pytest.raises(JobError, match="min_slots_per_trial is 2; expected at most 1"):
        checked(job, wanted=False, address=None, folder=tmp_path, say=lambda _: None)


def test_progress_is_said_only_of_what_takes_long() -> None:
    now, said = [0.0], list[str]()
    progress = CheckProgress(said.append, clock=lambda: now[0])
    for now[0], stage in (
        (1.0, None),
        (1.5, "iteration 1"),
        (3.4, None),
        (3.6, None),
        (9.0, None),
        (14.0, None),
    ):
        if stage is not None:
            progress.enter(stage)
        progress.look()
    assert said == [
        "checking the trainable: iteration 1, 2.1 s so far",
        "checking the trainable: iteration 1, 12.5 s so far",
    ]


# Machines and data.


def test_more_slots_than_cores_are_told_with_the_factor() -> None:
    (finding,) = judge_slots(
        job_of("good", cluster={"slots_per_node": 4, "max_nodes": 2, "price_per_hour": 1}), 2
    )
    assert finding.status is CheckStatus.WARNING
    assert "8 slots of 1 CPU share 2 cores" in finding.text
    assert "4.0 times as long" in finding.text
    assert not list(judge_slots(job_of("good"), 2))


TABLE = np.zeros(500_000)


def test_large_data_are_named_with_what_to_write_instead() -> None:
    images = np.zeros(1_000_000)

    def train(config: object, worker: object, state: object) -> object:
        return images, TABLE, np.memmap

    carried = carried_by(train, by_value=True, least=10**6)
    assert [(each.name, each.bytes) for each in carried] == [("images", 8_000_000), ("TABLE", 4_000_000)]
    (sent,) = judge_memory(job_of("good"), train, carried, 200 * 10**6, None)
    assert sent.status is CheckStatus.WARNING
    assert "200 MB are sent with the trainable to every slot, most of it images (8 MB)" in sent.text
    assert sent.remedy == "share one copy per node: images = elastune.shared(images)"
    (held,) = judge_memory(job_of("good"), train, [HeldValue("TABLE", 480 * 10**6)], 0, None)
    assert "every slot and the driver hold TABLE (480 MB)" in held.text
    assert held.remedy is not None
    assert "load TABLE in a function without arguments, with @elastune.shared in the line" in held.remedy


def test_what_is_sent_is_told_without_a_check_as_well_and_what_is_shared_is_not_sent(tmp_path: Path) -> None:
    images: Any = np.zeros(13_000_000)

    def train(config: object, worker: object, state: object) -> object:
        yield {"accuracy": images[0]}

    def warnings() -> list[str]:
        said: list[str] = []
        job = job_of("good", trainable=train)
        checked(job, wanted=False, address=None, folder=tmp_path, say=said.append)
        return [line for line in said if line.startswith("warning")]

    (warned,) = warnings()
    assert "memory: 104 MB are sent with the trainable to every slot, most of it images (104 MB)" in warned
    assert "share one copy per node: images = elastune.shared(images)" in warned
    images = elastune.shared(images)
    assert warnings() == []


def test_a_training_that_writes_into_shared_data_fails_its_check_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    order = order_of("scales_table", tmp_path, shared=(str(tmp_path / "shared"),))
    seen = probe(order, tmp_path / "output", lambda _: None)
    (finding,) = judge_training(seen, None, "accuracy", TimeLimit(60.0))
    assert finding.status is CheckStatus.FAILED
    assert "arrays of elastune.shared are read-only; copy what you change: array.copy()" in finding.text
    assert finding.place is not None
    assert finding.place.code == 'x *= config["lr"]'
    loaded = [path for path in (tmp_path / "shared").iterdir() if not path.name.startswith(".")]
    assert len(loaded) == 1


def test_sizes_are_those_of_arrays_at_any_depth_and_of_each_once(tmp_path: Path) -> None:
    array = np.zeros(1000)
    assert measure_bytes({"a": [array, array], "b": "xyz"}) == 8003
    assert measure_bytes(np.memmap(tmp_path / "file", dtype=np.float64, mode="w+", shape=(1000,))) == 0


def test_a_first_measurement_does_not_replace_a_profile_where_a_limit_has_to_be_kept(tmp_path: Path) -> None:
    first = FirstMeasurement(startup_s=1.0, iterations_s=(2.0,), save_s=0.1, state_bytes=10)
    job = job_of("good", deadline="10m", profile=None)

    def refuse(_: object) -> None:
        raise JobError("measures")

    with pytest.raises(JobError, match="measures"):
        measured(job, folder=tmp_path, first=first, consent=refuse)


def test_a_trainable_is_checked_without_a_job_file(tmp_path: Path) -> None:
    script = "def train(config):\n    return {'acc': config['lr'] * len(config.get('layers', [1]))}\n"
    (tmp_path / "mine.py").write_text(script)
    (tmp_path / "spaced.py").write_text(f"space = {{'lr': {{'float': [0.1, 1.0]}}}}\n\n\n{script}")
    passed = command(
        "check", "mine.py:train", "--config", "{lr: 0.5, layers: [8, 8]}", "--metric", "acc", cwd=tmp_path
    )
    assert passed.returncode == 0, passed.stderr
    assert "acc is reported: 1" in passed.stdout
    assert command("check", "spaced.py:train", "--metric", "acc", cwd=tmp_path).returncode == 0
    for missing, text in (
        (("--metric", "acc"), "pass one (--config '{lr: 0.1}'"),
        (("--config", "{lr: 0.5}"), "--metric accuracy"),
    ):
        refused = command("check", "mine.py:train", *missing, cwd=tmp_path)
        assert refused.returncode == JobError.exit_code
        assert text in refused.stderr


def test_a_function_is_checked_without_a_search(tmp_path: Path) -> None:
    """In a notebook, before there is a job."""
    named: dict[str, Any] = {"metric": "acc", "folder": tmp_path}

    def train(config: Any) -> dict[str, float]:
        return {"acc": config["lr"]}

    report = elastune.check(train, space={"lr": 0.5}, **named)
    assert report.is_fine, report.findings
    with pytest.raises(JobError, match=r"train has no job file, so its configuration is not known; pass one"):
        elastune.check(train, **named)
