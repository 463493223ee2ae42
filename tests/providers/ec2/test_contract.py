"""What every provider owes, of EC2 as moto has it, over HTTP."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from elastune.model.cluster import ClusterTerms
from elastune.providers.ec2 import broker as broking
from elastune.providers.ec2.api import Ec2Api
from elastune.providers.ec2.calls import Ec2Options, InstancePhase
from elastune.providers.ec2.provider import Ec2Provider
from elastune.providers.protocol import Provider, ProviderSetting, Survey
from elastune.providers.ray_cluster import RayLink
from tests.aws import IMAGE
from tests.providers.contract import ProviderContract
from tests.providers.ec2.moto_edge import Edge, moto_server
from tests.waiting import wait_until

OPTIONS: dict[str, Any] = {"region": "us-east-1", "instance_type": "p3.8xlarge", "image": IMAGE}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "hush-hush"}
_runs = itertools.count()


class Joins(RayLink):
    """Every instance that runs has its Ray node at once."""

    def __init__(self, api: Ec2Api, run: str) -> None:
        self.api = api
        self.run = run

    def joined(self) -> Mapping[str, str]:
        """moto never forgets an instance: those of all tests would take it long to list."""
        found = self.api.instances(self.run)
        return {each.id: f"ray-{each.id}" for each in found if each.phase is InstancePhase.RUNNING}

    def leaving(self) -> Mapping[str, float]:
        return {}


class MotoStage:
    def __init__(self, api: Ec2Api) -> None:
        self.open: list[Ec2Provider] = []
        self.api = api

    def _make(self, run: str, room: int, *, down_s: float | None = None) -> Ec2Provider:
        terms = ClusterTerms(slots_per_node=4, max_nodes=room, price_per_hour=12.24)
        setting = ProviderSetting(
            run=run, terms=terms, clock=time.monotonic, options=OPTIONS, job="contract", down_s=down_s
        )
        made = Ec2Provider(setting, cloud=self.api, ray_link=Joins(self.api, run))
        made.open()
        self.open.append(made)
        return made

    def provider(self, *, room: int = 4) -> Provider:
        return self._make(f"run{next(_runs)}", room)

    def reopen(self, provider: Provider) -> Provider:
        assert isinstance(provider, Ec2Provider)
        provider._ends = True  # as if it had been killed: nothing is ended
        provider._wake.set()
        self.open.remove(provider)
        return self._make(provider._setting.run, provider._setting.terms.max_nodes, down_s=1.0)

    def settle(self, provider: Provider) -> Survey:
        assert isinstance(provider, Ec2Provider)

        def settled() -> Survey | None:
            survey = provider.survey()
            answered = {status.token for status in survey.requests if not status.open}
            ready = all(machine.ready_s is not None for machine in survey.machines)
            return survey if ready and answered >= provider._asked.keys() and not provider._inbox else None

        survey = wait_until(settled)
        assert survey is not None
        return survey


@pytest.fixture(scope="module", autouse=True)
def _moto() -> Iterator[None]:
    with moto_server() as address, pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("AWS_"):
                patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", address)
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setattr(broking, "SETTLE_S", 0.2)
        patch.setattr(broking, "BUSY_LOOK_S", 0.05)
        yield


@pytest.fixture(scope="module")
def api(_moto: None) -> Ec2Api:
    """For all tests: a client of boto3 takes longer to make than most of them. Every run has other tokens."""
    made = Ec2Api("us-east-1", Ec2Options.parse(OPTIONS))
    Edge().install(made._client)
    return made


class TestEc2(ProviderContract):
    @pytest.fixture
    def stage(self, api: Ec2Api) -> Iterator[MotoStage]:
        made = MotoStage(api)
        yield made
        for provider in made.open:
            provider.close()
            final_check = provider.final_check()
            assert final_check is not None
            assert final_check.left == ()
            assert "listing of EC2" in final_check.how
