"""The steps of a check in the test's own process, without its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from elastune.checks.judging import TimeLimit, judge_training
from elastune.checks.messages import ProbeOrder, ProbeSeen
from elastune.checks.phases import continue_anew, train_alone
from elastune.checks.report import CheckFinding
from elastune.job.job import Job
from elastune.runtime.ray.messages import CodeReference
from elastune.training.recipe import load

SUBJECTS = Path(__file__).with_name("subjects.py")
TORCH_SUBJECTS = SUBJECTS.with_name("torch_subjects.py")
LIMIT = TimeLimit(60.0, is_asked=True)


def reference_to(name: str) -> str:
    text = TORCH_SUBJECTS.read_text()
    is_of_torch = f"class {name}(" in text or f"def {name}(" in text
    return f"{TORCH_SUBJECTS if is_of_torch else SUBJECTS}:{name}"


def job_of(name: str, **changes: Any) -> Job:
    sections: dict[str, Any] = {
        "trainable": reference_to(name),
        "space": {"lr": {"float": [0.01, 0.1]}},
        "metric": "accuracy",
        "search": {"algorithm": "random", "trials": 4, "max_iterations": 8},
        "cluster": {"slots_per_node": 2, "max_nodes": 1, "price_per_hour": 1},
        "profile": {"iteration": "1s"},
        **changes,
    }
    return Job.from_dict({key: value for key, value in sections.items() if value is not None})


def order_of(name: str, folder: Path, *configs: Mapping[str, Any], **changes: Any) -> ProbeOrder:
    order = ProbeOrder(
        script=CodeReference(name=name, metric="accuracy", reference=reference_to(name)),
        configs=configs or ({"lr": 0.1},),
        seed=7,
        pickles=False,
        threads=1,
        gpus=0,
        folder=str(folder),
        most_s=60.0,
        gang=False,
        declared=False,
    )
    return replace(order, **changes)


def look_at(name: str, folder: Path, **changes: Any) -> tuple[ProbeSeen, dict[str, CheckFinding]]:
    """What one worker and its successor show, and the findings by what they are about."""
    return judged(order_of(name, folder, **changes), load(reference_to(name)))


def judged(order: ProbeOrder, user: object) -> tuple[ProbeSeen, dict[str, CheckFinding]]:
    seen = ProbeSeen(solo=train_alone(order, lambda _: None))
    assert seen.solo is not None
    if seen.solo.fault is None and seen.solo.saves:
        seen.detour = continue_anew(order, shortened="batches" in seen.solo.calls, device="cpu")
    findings = judge_training(seen, user, "accuracy", LIMIT)
    return seen, {each.about: each for each in findings}
