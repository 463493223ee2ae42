"""A worker group as the contract of providers needs it, over HTTP."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any

from elastune.model.cluster import ClusterTerms
from elastune.providers.kubernetes.api import ClusterAccess, KubernetesApi
from elastune.providers.kubernetes.calls import RayClusterCalls
from elastune.providers.kubernetes.provider import KubernetesProvider
from elastune.providers.protocol import Provider, ProviderSetting, Survey
from elastune.providers.ray_cluster import RayLink
from tests.providers.kubernetes.stand_in import CLUSTER, GROUP, NAMESPACE, TOKEN, StandIn
from tests.waiting import wait_until

_runs = itertools.count()


def api_at(address: str) -> KubernetesApi:
    return KubernetesApi(ClusterAccess(server=address, namespace=NAMESPACE, token=lambda: TOKEN))


class PodsJoin(RayLink):
    """Every pod that runs has its Ray node at once."""

    def __init__(self, stand_in: StandIn, run: str) -> None:
        self.stand_in = stand_in
        self.run = run

    def joined(self) -> Mapping[str, str]:
        with self.stand_in.lock:
            mine = [
                name
                for name, pod in self.stand_in.pods.items()
                if pod["metadata"]["labels"].get("elastune.io/run") == self.run
                and pod["status"]["phase"] == "Running"
            ]
        return {name: f"ray-{name}" for name in mine}

    def leaving(self) -> Mapping[str, float]:
        return {}


class PodStage:
    def __init__(self, stand_in: StandIn, address: str) -> None:
        self.stand_in = stand_in
        self.api = api_at(address)
        self.open: list[KubernetesProvider] = []

    def make(
        self, run: str, room: int = 4, *, down_s: float | None = None, **more: Any
    ) -> KubernetesProvider:
        terms = ClusterTerms(slots_per_node=2, max_nodes=room, price_per_hour=3.0)
        options = {"cluster": CLUSTER, "group": GROUP, **more.pop("options", {})}
        setting = ProviderSetting(
            run=run, terms=terms, clock=time.monotonic, options=options, job="tune it", down_s=down_s, **more
        )
        calls = RayClusterCalls(self.api, CLUSTER, GROUP)
        made = KubernetesProvider(setting, calls=calls, ray_link=PodsJoin(self.stand_in, run))
        made.open()
        self.open.append(made)
        return made

    def provider(self, *, room: int = 4) -> KubernetesProvider:
        return self.make(f"run{next(_runs)}", room)

    def reopen(self, provider: Provider) -> Provider:
        assert isinstance(provider, KubernetesProvider)
        self.abandon(provider)
        return self.make(provider._setting.run, provider._setting.terms.max_nodes, down_s=1.0)

    def abandon(self, provider: KubernetesProvider) -> None:
        """As if its driver had been killed: nothing is ended."""
        provider._ends = True
        provider._wake.set()
        assert provider._thread is not None
        provider._thread.join()
        self.open.remove(provider)

    def settle(self, provider: Provider) -> Survey:
        assert isinstance(provider, KubernetesProvider)

        def settled() -> Survey | None:
            survey = provider.survey()
            answered = {status.token for status in survey.requests if not status.open}
            ready = all(machine.ready_s is not None for machine in survey.machines)
            return survey if ready and answered >= provider._asked.keys() and not provider._inbox else None

        survey = wait_until(settled, lambda: f"not settled: {provider.survey()}, {provider.broken}")
        assert survey is not None
        return survey

    def close(self) -> None:
        """Nothing is left, and no pod was ever deleted at random."""
        for provider in self.open:
            provider.close()
            final_check = provider.final_check()
            assert final_check is not None
            assert final_check.left == (), final_check
            assert "listing of Kubernetes" in final_check.how
        assert self.stand_in.alive() == []
        assert self.stand_in.group["replicas"] == 0
        assert self.stand_in.annotations == {}
        assert self.stand_in.deleted_at_random == []
        assert len(self.stand_in.alive("users-own")) == 2
