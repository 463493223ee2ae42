"""What the broker of Slurm jobs decides, on a model of Slurm that fails at any call."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from elastune.model.ids import NodeId
from elastune.providers.protocol import Survey
from elastune.providers.slurm.broker import JobBroker, JobPurpose
from elastune.providers.slurm.calls import JobPhase, SlurmError, SlurmJob
from tests.providers.contract import nodes, status
from tests.providers.slurm.model import ModelSlurm, SlurmFaults

LEASE_S = 300.0


@dataclass
class World:
    """A run, its drivers and a Slurm."""

    faults: SlurmFaults = field(default_factory=SlurmFaults)
    seed: int = 0
    max_nodes: int = 8
    now_s: float = 1000.0
    lease_s: float | None = LEASE_S
    patience_s: float | None = None

    def __post_init__(self) -> None:
        self.slurm = ModelSlurm(lambda: self.now_s, self.faults, self.seed)
        self.broker = self.take_over()

    def take_over(self) -> JobBroker:
        """A new driver."""
        purpose = JobPurpose(
            run="r", max_nodes=self.max_nodes, script="", arguments=(), output="", patience_s=self.patience_s
        )
        return JobBroker(
            self.slurm,
            purpose,
            clock=lambda: self.now_s,
            wall=lambda: self.now_s,
            lease_s=lambda: self.lease_s,
            needed_s=lambda: None,
            luck=random.Random(self.seed),
        )

    def work(self, seconds: float) -> Survey:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            due_s = self.broker.work()
            check(self.broker.survey())
            self.now_s = min(until_s, max(due_s, self.now_s + 0.1))
        self.broker.work()
        return self.broker.survey()


def check(survey: Survey) -> None:
    """A survey is consistent."""
    granted = {node for each in survey.requests for node in each.granted}
    assert {machine.node for machine in survey.machines} <= granted
    for each in survey.requests:
        assert each.open >= 0
        assert bool(each.refused) == bool(each.reason)
    since = [machine.since_s for machine in survey.machines]
    assert since == sorted(since)
    assert all(at_s <= survey.at_s for at_s in since)


def test_an_account_limit_is_answered_with_what_can_be_had() -> None:
    """AssocGrpLimit: two run, and the others are refused once Slurm has said so for a while."""
    world = World(SlurmFaults(grouped=2))
    world.broker.request("a", 4)
    answer = status(world.work(60.0), "a")
    assert (len(answer.granted), answer.refused, answer.open) == (2, 2, 0)
    assert answer.reason == "Slurm does not start it: AssocGrpNodeLimit"
    assert len(world.slurm.alive()) == 2


def test_a_submit_limit_is_answered_with_fewer_jobs() -> None:
    world = World(SlurmFaults(most_jobs=3))
    world.broker.request("a", 8)
    answer = status(world.work(30.0), "a")
    assert (len(answer.granted), answer.refused) == (3, 5)
    assert "job submit limit" in answer.reason


def test_a_job_that_waits_for_ever_is_given_up() -> None:
    world = World(SlurmFaults(capacity=0))
    world.broker.request("a", 2)
    assert status_of(world.work(500.0), "a") is None
    answer = status(world.work(200.0), "a")
    assert (answer.refused, answer.granted) == (2, ())
    assert answer.reason == "waited for 10 min in the queue (Resources)"
    assert world.slurm.alive() == []


def test_a_lost_answer_to_a_submission_submits_nothing_twice() -> None:
    world = World(SlurmFaults(unanswered=1.0))
    world.broker.request("a", 2)
    world.work(5.0)
    world.slurm._faults = SlurmFaults()
    answer = status(world.work(60.0), "a")
    assert (len(answer.granted), world.slurm.submitted) == (2, 2)


def test_a_job_that_slurm_queues_again_is_lost_and_cancelled() -> None:
    world = World()
    world.broker.request("a", 1)
    (node,) = nodes(world.work(10.0))
    each = world.slurm.all[node]
    world.slurm.all[node].job = _pending(each.job)
    survey = world.work(20.0)
    assert survey.machines == ()
    assert status(survey, "a").granted == (node,)
    assert world.slurm.alive() == []


def test_a_job_with_the_number_of_a_forgotten_one_is_cancelled() -> None:
    """A controller crashed before it saved the job of "a": it gives its number to that of "b"."""
    world = World()
    world.broker.request("a", 1)
    first = status(world.work(10.0), "a").granted
    world.slurm.crash(1)
    world.broker.request("b", 1)
    survey = world.work(60.0)
    assert status(survey, "a").granted == first
    answer = status(survey, "b")
    assert (len(answer.granted), answer.refused) == (1, 0)
    assert answer.granted != first
    assert world.slurm.alive() == nodes(survey) == list(answer.granted)


@pytest.mark.parametrize("lease_s", [None, 0.0, -5.0])
def test_without_a_lease_nothing_is_submitted(lease_s: float | None) -> None:
    """It is not known yet, or the budget lasts no longer."""
    world = World(lease_s=lease_s)
    world.broker.request("a", 2)
    world.work(30.0)
    assert world.slurm.submitted == 0
    world.lease_s = LEASE_S
    assert len(world.work(30.0).machines) == 2


def test_a_new_driver_waits_for_the_jobs_that_the_old_one_submitted() -> None:
    world = World(SlurmFaults(start_s=30.0))
    world.broker.request("a", 3)
    world.work(1.0)
    world.broker = world.take_over()
    world.broker.look_afresh()
    world.broker.request("a", 3)
    answer = status(world.work(120.0), "a")
    assert (len(answer.granted), answer.refused, world.slurm.submitted) == (3, 0, 3)


def test_the_time_that_a_job_ran_is_what_is_billed() -> None:
    world = World()
    world.broker.request("a", 1)
    (node,) = nodes(world.work(10.0))
    began_s = world.slurm.all[node].began_s
    world.work(90.0)
    world.broker.release([node])
    world.broker.work()
    billed_s, now_s = world.broker.billed_s(node), world.now_s
    assert billed_s is not None
    assert began_s is not None
    assert abs(billed_s - (now_s - began_s)) <= 1.0
    world.work(50.0)
    assert world.broker.billed_s(node) == billed_s


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_left_whatever_fails(seed: int) -> None:
    run_with_faults(seed)


def run_with_faults(seed: int) -> None:
    """Requests, releases and kills at random, then the end of the run: every job is gone."""
    luck = random.Random(f"world {seed}")
    world = World(
        SlurmFaults(
            unheard=luck.choice([0.0, 0.1, 0.4]),
            unanswered=luck.choice([0.0, 0.1, 0.3]),
            capacity=luck.choice([1, 3, 100]),
            most_jobs=luck.choice([2, 5, 1000]),
            grouped=luck.choice([2, 1000]),
            start_s=luck.choice([0.5, 20.0, 200.0]),
            loss_per_s=luck.choice([0.0, 0.01]),
            requeue_per_s=luck.choice([0.0, 0.005]),
        ),
        seed=seed,
    )
    asked: dict[str, int] = {}
    for number in range(luck.randint(2, 8)):
        token, count = str(number), luck.randint(1, 4)
        asked[token] = count
        world.broker.request(token, count)
        survey = world.work(luck.choice([0.2, 3.0, 60.0, 700.0]))
        held = nodes(survey)
        world.broker.release(luck.sample(held, luck.randint(0, len(held))))
        if luck.random() < 0.2 and world.slurm.submitted:
            world.slurm.crash(1)
        if luck.random() < 0.3:
            world.now_s += luck.choice([0.5, 30.0, 900.0])
            _restart(world, asked)
    world.broker.wind_up()
    world.slurm._faults = SlurmFaults()  # it comes back at some time
    world.work(100.0)
    world.broker.cancel_all()
    assert world.slurm.alive() == []


def _restart(world: World, asked: dict[str, int]) -> None:
    while True:
        world.broker = world.take_over()
        try:
            world.broker.look_afresh()
        except SlurmError:
            world.now_s += 5.0
            continue
        break
    for token, count in asked.items():
        world.broker.request(token, count)


def status_of(survey: Survey, token: str) -> object:
    return next((each for each in survey.requests if each.token == token), None)


def _pending(job: SlurmJob) -> SlurmJob:
    return replace(job, phase=JobPhase.PENDING, state="PENDING")


def test_unknown_nodes_are_ignored() -> None:
    world = World()
    world.broker.release([NodeId("never-was")])
    world.broker.notice({"never-was": 1.0})
    world.broker.join("never-was", 1.0)
    assert world.work(1.0).machines == ()
