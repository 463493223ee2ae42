"""A real Slurm that keeps accounts: the history of the queue, and limits of accounts and QOS."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastune.job.job import Job
from elastune.providers.slurm import broker as broking
from elastune.providers.slurm.calls import SlurmCommands
from elastune.providers.slurm.inventory import expected_queue
from elastune.setup.machine_offers import machine_offers
from tests.providers.contract import status
from tests.providers.slurm.accounts import ACCOUNT, FEW, GRACE, SMALL, AccountingRig, slurm_with_accounts
from tests.providers.slurm.stage import SlurmStage
from tests.waiting import wait_until

pytestmark = pytest.mark.slow  # a database and three daemons start


@pytest.fixture(scope="module")
def accounts_cluster() -> Iterator[AccountingRig]:
    with slurm_with_accounts() as rig:
        yield rig


@pytest.fixture
def accounts(accounts_cluster: AccountingRig, monkeypatch: pytest.MonkeyPatch) -> AccountingRig:
    for name, value in accounts_cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(broking, "HOPELESS_S", 1.0)
    accounts_cluster.empty()
    return accounts_cluster


@pytest.fixture
def stage(accounts: AccountingRig, tmp_path: Path) -> Iterator[SlurmStage]:
    made = SlurmStage(tmp_path, account=ACCOUNT)
    yield made
    made.close()
    assert accounts.jobs() == []


def test_the_wait_in_a_quote_is_how_long_jobs_waited(accounts: AccountingRig) -> None:
    """Six jobs of an account that may run one at a time."""
    accounts.call("sbatch", f"--account={SMALL}", "--array=0-5", "--output=/dev/null", "--wrap=sleep 2")
    wait_until(lambda: not accounts.jobs(), lambda: accounts.call("squeue"))
    wait_until(lambda: len(SlurmCommands().past_waits_s([])) >= 6)
    waits = SlurmCommands().past_waits_s([])
    assert max(waits) >= 8.0
    found = expected_queue({"partition": "main"})
    assert found is not None
    assert found.mean == pytest.approx(statistics.fmean(waits))
    assert SlurmCommands().past_waits_s(["urgent"]) == ()
    cluster = {"provider": "slurm", "slots_per_node": 1, "max_nodes": 2, "init": "20s"}
    search = {"algorithm": "random", "trials": 2, "max_iterations": 3}
    job = Job.from_dict({"cluster": cluster, "search": search, "profile": {"iteration": "1s"}})
    (offer,) = machine_offers(job).offers
    assert offer.wait_s == pytest.approx(found.mean)


def test_an_account_limit_grants_what_it_allows_and_refuses_the_rest(stage: SlurmStage) -> None:
    stage.options |= {"account": SMALL}
    provider = stage.provider()
    provider.request("a", 2)
    answer = status(stage.settle(provider), "a")
    assert (len(answer.granted), answer.refused) == (1, 1)
    assert answer.reason == "Slurm does not start it: AssocGrpJobsLimit"


def test_a_submit_limit_submits_fewer_jobs(stage: SlurmStage) -> None:
    stage.options |= {"account": FEW}
    provider = stage.provider()
    provider.request("a", 4)
    answer = status(stage.settle(provider), "a")
    assert (len(answer.granted), answer.refused) == (2, 2)
    assert "AssocMaxSubmitJobLimit" in answer.reason


@pytest.mark.parametrize(
    ("option", "told"), [({"account": "no-such"}, "Invalid account"), ({"qos": "none-such"}, "Invalid qos")]
)
def test_an_account_or_qos_that_does_not_exist_is_an_error_of_the_job(
    option: dict[str, str], told: str, stage: SlurmStage
) -> None:
    stage.options |= option
    provider = stage.provider()
    provider.request("a", 1)
    wait_until(lambda: provider.broken)
    assert told in str(provider.broken)


def test_the_grace_time_of_a_qos_is_known(stage: SlurmStage) -> None:
    assert SlurmCommands().grace_s((), GRACE) == 40.0
    assert SlurmCommands().grace_s((), "normal") is None
    stage.options |= {"qos": GRACE}
    provider = stage.provider()
    provider.request("a", 1)
    assert len(stage.settle(provider).machines) == 1
