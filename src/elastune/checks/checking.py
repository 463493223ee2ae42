"""A check of a job's trainable, from the job to the report."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import sys
import tempfile
import time
from pathlib import Path

from elastune.checks.gangs import judge_gang
from elastune.checks.judging import TimeLimit, judge_training
from elastune.checks.machine import judge_memory, judge_slots, judge_speed
from elastune.checks.messages import ProbeOrder, ProbeSeen, SoloSeen
from elastune.checks.probing import Say, probe
from elastune.checks.report import CheckFinding, CheckReport, FirstMeasurement, note
from elastune.checks.sizes import carried_by
from elastune.data.dataset import Dataset
from elastune.job.job import Job
from elastune.job.machine import count_cores
from elastune.runs.code_bundle import CodeShipment
from elastune.runs.profiling import Effort, choose_configurations, key_of
from elastune.setup.data import open_data, with_rows
from elastune.training.shared_data import folders_after
from elastune.training.worker import trial_seed

# Changes when reports of checks mean something else.
_FORMAT = 3


def may_form_gangs(job: Job, declared: int | None) -> bool:
    """Whether a trial of this job could get several slots."""
    slots = [job.cluster.slots_per_node * job.cluster.most_nodes, job.search.max_slots_per_trial, declared]
    most = min(each for each in slots if each is not None)
    return most > 1 and importlib.util.find_spec("torch") is not None


def is_here(job: Job, address: str | None) -> bool:
    """Whether the nodes are on this machine."""
    return job.cluster.provider == "local" and address is None


def check_key(job: Job, shipment: CodeShipment, address: str | None) -> str:
    """As measurements have it, and the code that the trainable imports from its folders."""
    folders = [Path(path) for path in shipment.paths]
    sources = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py") and _is_beside(Path(file), folders):
            sources[name] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    about = [
        _FORMAT,
        key_of(job, shipment, address),
        job.unopened_tuning().metric,
        job.search.max_slots_per_trial,
        sources,
    ]
    return hashlib.sha256(json.dumps(about, default=str).encode()).hexdigest()[:16]


def _is_beside(file: Path, folders: list[Path]) -> bool:
    if not file.is_file() or "site-packages" in file.parts:
        return False
    return any(file.is_relative_to(folder) for folder in folders)


def carry_out_check(
    job: Job, shipment: CodeShipment, *, address: str | None, output: Path, limit: TimeLimit, say: Say
) -> CheckReport:
    """Train some steps on one slot of this machine, and judge. `output` is where the training prints."""
    began = time.monotonic()
    recipe, metric = shipment.recipe, job.unopened_tuning().metric
    here = is_here(job, address)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(b"")
    with tempfile.TemporaryDirectory(prefix="elastune-check-") as folder:
        shared = Path(folder) / "shared"
        shared.mkdir()
        order = ProbeOrder(
            script=shipment.script,
            configs=choose_configurations(job, Effort(configurations=2)),
            seed=trial_seed(job.seed, 0),
            pickles=job.pickles,
            threads=job.slot.cpus or 1,
            gpus=job.slot.gpus or 0 if here else 0,
            folder=folder,
            most_s=limit.seconds,
            gang=may_form_gangs(job, recipe.most_slots),
            declared=(recipe.most_slots or 1) > 1,
            paths=shipment.paths,
            preload=shipment.preload,
            shared=folders_after(shared),
            dataset=_open_dataset(job, shipment, Path(folder)),
        )
        seen = probe(order, output, say)
    asked = (job.search.max_slots_per_trial or 1) > 1
    declared = recipe.most_slots if order.gang else 1
    sharing, gangs = judge_gang(seen, recipe.user, declared, metric=metric, asked=asked)
    findings = [
        *judge_training(seen, recipe.user, metric, limit),
        *(gangs if order.gang or recipe.most_slots == 1 else ()),
        *_judge_machine(job, shipment, seen.solo, here=here),
    ]
    return CheckReport(
        trainable=recipe.name,
        findings=tuple(each.with_code() for each in findings),
        declared_slots=recipe.most_slots,
        sharing=sharing,
        took_s=time.monotonic() - began,
        iterations=_count(seen),
        measured=_measured(seen.solo),
        output=str(output) if output.stat().st_size else None,
        key=check_key(job, shipment, address),
    )


def _open_dataset(job: Job, shipment: CodeShipment, folder: Path) -> Dataset | None:
    """Partitioned data, made in a folder of the check if they are made."""
    if job.data is None:
        return None
    local = job if job.data.make is None else job.model_copy(update={"storage": None})
    return open_data(with_rows(local, for_real=True), folder, shipment.recipe)


def judge_sizes(job: Job, shipment: CodeShipment, solo: SoloSeen | None = None) -> list[CheckFinding]:
    """What is sent with the trainable and held by every slot. None: nothing was trained."""
    user, pickled = shipment.recipe.user, shipment.script.pickled
    size = 0 if pickled is None else len(pickled)
    carried = carried_by(user, by_value=pickled is not None)
    return list(judge_memory(job, user, carried, size, solo))


def _judge_machine(
    job: Job, shipment: CodeShipment, solo: SoloSeen | None, *, here: bool
) -> list[CheckFinding]:
    findings = [*judge_sizes(job, shipment, solo), *judge_speed(job, solo, is_here=here)]
    if here:
        return [*findings, *judge_slots(job, count_cores())]
    return [*findings, note("machine", "checked on this machine, not on the nodes of the cluster")]


def _count(seen: ProbeSeen) -> int:
    """Iterations begun on one slot."""
    alone = 0 if seen.solo is None else len(seen.solo.rows)
    return alone + int(seen.detour is not None) + int(seen.diverged is not None)


def _measured(solo: SoloSeen | None) -> FirstMeasurement | None:
    if solo is None or solo.fault is not None:
        return None
    seconds = tuple(each for each in solo.seconds if each is not None and math.isfinite(each))
    if not seconds:
        return None
    return FirstMeasurement(
        startup_s=solo.startup_s, iterations_s=seconds, save_s=solo.save_s, state_bytes=solo.state_bytes
    )
