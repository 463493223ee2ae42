"""Nodes on another machine: the user's code comes to them, and leaves with them.

The other machine is this one under another name, with another working folder, and the folder of the driver is
taken away as soon as it is packed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elastune
from elastune.api.running import carry_out_run
from elastune.api.simulating import new_id, now_utc
from elastune.api.tuning import prepare_to_run
from elastune.checkpoints.store import load_checkpoint
from elastune.core.commands import Ending
from elastune.core.state import State
from elastune.errors import JobError
from elastune.journal.records import RunRecord, RuntimeKind
from elastune.journal.run_folders import RunFolder
from elastune.journal.store import Journal
from elastune.model.cluster import ClusterTerms
from elastune.providers.attached import AttachedProvider, _spreads
from elastune.providers.local.provider import LocalProvider
from elastune.providers.protocol import MachineState, ProviderSetting
from elastune.runs.real import RealRun, RunResources
from elastune.runtime.ray.agent import MACHINE
from elastune.runtime.ray.fleet import RunClock
from elastune.training.shared_file import find_map
from tests.aws import served_aws
from tests.runtime.real.runs import Watch, assert_undisturbed, job_of, kill, slot_processes
from tests.waiting import wait_until

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

SLOTS = 2
BUCKET = "far-away"
TRAIN = """
import os
import sys
from pathlib import Path

import helper
from deep.down import WORD


def train(config, worker, state):
    done = state["done"] if state else 0
    while True:
        done += 1
        if config["how"] == "raise" and done == 2:
            print("the last words", flush=True)
            raise ValueError("as was to be expected")
        if config["how"] == "die" and done == 2:
            print("no word of farewell", flush=True)
            os._exit(7)
        yield {"score": float(done)}, lambda: {
            "done": done, "helper": helper.__file__, "file": __file__, "cwd": os.getcwd(), "word": WORD,
            "text": Path("words.txt").read_text(), "first": sys.path[0],
        }


train.most_slots = 1
"""


class Elsewhere(AttachedProvider):
    @property
    def is_elsewhere(self) -> bool:
        return True


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """In an S3 that this machine and the other one reach."""
    boto3 = pytest.importorskip("boto3")
    s3fs = pytest.importorskip("s3fs")
    with served_aws() as aws, _environment(aws):
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield BUCKET
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def cluster(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProvider]:
    terms = ClusterTerms(slots_per_node=SLOTS, max_nodes=1, price_per_hour=3.6)
    fleet = LocalProvider(ProviderSetting(run="r", terms=terms, clock=time.monotonic))
    with _environment({MACHINE: "the other one"}), contextlib.chdir(tmp_path_factory.mktemp("there")):
        fleet.open()
    os.environ.pop(MACHINE, None)  # which the connection to Ray has put back
    try:
        fleet.request("pool", 1)
        wait_until(lambda: any(machine.state is MachineState.READY for machine in fleet.survey().machines))
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "code" / "deep").mkdir(parents=True)
    (folder / "code" / "train.py").write_text(TRAIN)
    (folder / "code" / "helper.py").write_text("")
    (folder / "code" / "deep" / "down.py").write_text("WORD = 'hello'")
    (folder / "words.txt").write_text("from afar")
    return folder


def run_elsewhere(
    project: Path, tmp_path: Path, storage: str | None, *how: str, trainable: Any = "code/train.py:train"
) -> RealRun:
    with contextlib.chdir(project):
        job = job_of(
            trainable=trainable,
            space={"how": {"choice": list(how)}},
            search={"algorithm": "grid", "max_iterations": 4},
            cluster={"slots_per_node": SLOTS, "nodes": 1, "price_per_hour": 3.6},
            storage=storage,
        )
        offer, run = prepare_to_run(job, address="auto"), new_id()
        folder = RunFolder.create(tmp_path / "runs", name="far", now_utc=now_utc(), run=run)
        record = RunRecord(
            run=run,
            name="far",
            created_utc=now_utc(),
            body=RuntimeKind.RAY,
            policy=offer.setup.policy,
            seed=0,
        )
        clock = RunClock.starting_at()
        provider = Elsewhere(
            ProviderSetting(run=run, terms=offer.setup.terms.cluster, clock=clock), "auto", slot_cpus=1
        )
        journal = Journal.open(folder.journal)
        with provider:
            real = RealRun(
                offer.setup,
                RunResources(provider=provider, shipment=offer.shipment, clock=clock),
                journal=journal,
                writer=journal.start(record),
                record=record,
                folder=folder,
            )
            project.rename(tmp_path / "gone")
            real.run(real.beginning())
        return real


def test_the_working_folder_comes_along_and_goes_with_the_agent(
    cluster: LocalProvider, project: Path, tmp_path: Path
) -> None:
    where = f"s3://{BUCKET}/runs"
    real = run_elsewhere(project, tmp_path, where, "well")
    told = last_state_of(real, where)
    home = Path(told["cwd"])
    assert home.parent.name.startswith("elastune-work-")
    assert told["first"] == str(home)
    assert told["helper"] == str(home / "code" / "helper.py")
    assert told["file"] == str(home / "code" / "train.py")
    assert (told["word"], told["text"]) == ("hello", "from afar")
    wait_until(lambda: not home.parent.exists(), "the working folder was left behind")


def last_state_of(real: RealRun, where: str) -> Any:
    assert real.store.path(0, 1).startswith(where)
    assert real.core.state.ended is Ending.COMPLETE
    (trial, iteration) = real.store.list()[-1]
    return load_checkpoint(real.store.path(trial, iteration))


def test_the_last_lines_of_a_trial_that_broke_come_home(
    cluster: LocalProvider, project: Path, tmp_path: Path
) -> None:
    """Beside one that ends well; checkpoints are in a folder that both machines have."""
    where = str(tmp_path / "shared")
    real = run_elsewhere(project, tmp_path, where, "raise", "die", "well")
    assert last_state_of(real, where)["done"] == 4
    trials = {trial.config["how"]: trial for trial in real.core.state.trials.values()}
    assert {how: trial.phase.value for how, trial in trials.items()} == {
        "well": "finished", "raise": "failed", "die": "failed",
    }  # fmt: skip
    logs = {how: real.folder.logs / f"trial-{trial.number:05d}.log" for how, trial in trials.items()}
    raised, died = (logs[how].read_text() for how in ("raise", "die"))
    assert "the last words" in raised
    assert "ValueError: as was to be expected" in raised
    assert "no word of farewell" in died
    assert "ValueError" not in died


def shared_training() -> Any:
    """A function whose data the driver holds, and others that each node loads."""
    x: Any = elastune.shared({"x": np.arange(1_000_000), "name": "numbers"})

    @elastune.shared
    def loaded() -> Any:
        return {"y": np.arange(10.0), "folder": str(Path.cwd())}

    def train(config: Any, worker: Any, state: Any) -> Any:
        files = [find_map(array) for array in (x["x"], loaded["y"])]
        told = {
            "paths": [None if file is None else str(file.path) for file in files],
            "inodes": [None if file is None else file.path.stat().st_ino for file in files],
            "sums": [int(x["x"].sum()), int(loaded["y"].sum())],
            "name": x["name"],
            "folder": loaded["folder"],
        }
        for done in range(1 if state is None else state["done"] + 1, 5):
            yield {"score": float(done)}, lambda done=done: {"done": done, **told}

    train.most_slots = 1  # type: ignore[attr-defined]
    return train, find_map(x["x"])


def test_shared_data_come_along_and_are_loaded_on_the_other_machine(
    cluster: LocalProvider, project: Path, tmp_path: Path
) -> None:
    train, own = shared_training()
    where = str(tmp_path / "states")
    real = run_elsewhere(project, tmp_path, where, "well", trainable=train)
    told = last_state_of(real, where)
    assert (told["sums"], told["name"]) == ([499_999_500_000, 45], "numbers")
    folder = Path(told["folder"]).parent / "shared"
    assert folder.parent.name.startswith("elastune-work-")
    assert told["paths"] == [str(folder / own.path.name), str(folder / Path(told["paths"][1]).name)]
    assert told["inodes"][0] != own.path.stat().st_ino
    wait_until(lambda: not folder.exists(), "shared data were left behind")


def test_on_the_machine_of_the_driver_its_own_data_are_shared(cluster: LocalProvider, tmp_path: Path) -> None:
    train, own = shared_training()
    job = job_of(
        trainable=train,
        space={"how": {"choice": ["well", "too"]}},
        search={"algorithm": "grid", "max_iterations": 4},
        cluster={"slots_per_node": SLOTS, "nodes": 1, "price_per_hour": 3.6},
    )
    finished = carry_out_run(prepare_to_run(job, address="auto"), folder=tmp_path)
    assert finished.result.best is not None
    told = load_checkpoint(str(finished.result.best.checkpoint))
    assert told["paths"][0] == str(own.path)
    assert told["inodes"][0] == own.path.stat().st_ino
    assert not Path(told["paths"][1]).parent.exists(), "what the slots loaded goes with the run"
    assert own.path.is_file()


def test_without_a_storage_that_all_reach_it_is_refused(
    cluster: LocalProvider, project: Path, tmp_path: Path
) -> None:
    with pytest.raises(JobError, match=r"storage is missing: .* expected storage: s3://bucket/prefix, or a"):
        run_elsewhere(project, tmp_path, None, "well")


def test_an_attached_cluster_is_elsewhere_if_one_of_its_machines_is() -> None:
    here = {"NodeManagerAddress": "10.0.0.1", "NodeManagerHostname": "a"}
    there = {"NodeManagerAddress": "10.0.0.2", "NodeManagerHostname": "b"}
    assert not _spreads([here, dict(here)])
    assert _spreads([here, there])


def test_an_attached_cluster_on_this_machine_is_not_elsewhere(cluster: LocalProvider) -> None:
    terms = ClusterTerms(slots_per_node=SLOTS, max_nodes=1, price_per_hour=3.6)
    with AttachedProvider(ProviderSetting(run="r", terms=terms, clock=time.monotonic), "auto") as provider:
        assert not provider.is_elsewhere
        assert provider.final_check() is None


class _KillWorker(Watch):
    """A slot process is younger than the fork server that forked it."""

    def is_time(self, state: State) -> bool:
        return state.iterations >= 3

    def act(self) -> None:
        kill([slot_processes()[-1]])


def test_a_slot_of_a_node_that_is_lost_costs_time_and_nothing_else(
    cluster: LocalProvider, tmp_path: Path
) -> None:
    watch = _KillWorker()
    job = job_of(cluster={"slots_per_node": SLOTS, "nodes": 1, "price_per_hour": 3.6})
    finished = carry_out_run(prepare_to_run(job, address="auto"), folder=tmp_path, watch=watch)
    assert watch.acted
    assert_undisturbed(finished, job)
