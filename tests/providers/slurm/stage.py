"""Slurm as the contract of providers needs it. The jobs sleep instead of starting Ray."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elastune.model.cluster import ClusterTerms
from elastune.providers.protocol import Provider, ProviderSetting, Survey
from elastune.providers.ray_cluster import RayLink
from elastune.providers.slurm.calls import JobPhase, SlurmCalls, SlurmCommands, SlurmError
from elastune.providers.slurm.provider import SlurmProvider
from tests.waiting import wait_until

_runs = itertools.count()


class JobsJoin(RayLink):
    """Every job that runs has its Ray node at once."""

    def __init__(self, calls: SlurmCalls, run: str) -> None:
        self.calls = calls
        self.run = run
        self.last: dict[str, str] = {}

    def joined(self) -> Mapping[str, str]:
        with contextlib.suppress(SlurmError):  # Ray would still know
            jobs = self.calls.jobs(self.run)
            self.last = {job.id: f"ray-{job.id}" for job in jobs if job.phase is JobPhase.RUNNING}
        return self.last

    def leaving(self) -> Mapping[str, float]:
        return {}


class SlurmStage:
    def __init__(self, folder: Path, calls: SlurmCalls | None = None, **options: Any) -> None:
        self.open: list[SlurmProvider] = []
        self.calls = calls or SlurmCommands()
        self.options = {"folder": str(folder), "setup": ["exec sleep 600"], **options}

    def make(self, run: str, room: int, *, down_s: float | None = None, **more: Any) -> SlurmProvider:
        terms = ClusterTerms(slots_per_node=2, max_nodes=room, price_per_hour=3.0)
        setting = ProviderSetting(
            run=run,
            terms=terms,
            clock=time.monotonic,
            options=self.options,
            job="con tract",
            down_s=down_s,
            **more,
        )
        made = SlurmProvider(setting, calls=self.calls, ray_link=JobsJoin(self.calls, run))
        made.open()
        self.open.append(made)
        return made

    def provider(self, *, room: int = 4) -> SlurmProvider:
        return self.make(f"run{next(_runs)}", room)

    def reopen(self, provider: Provider) -> Provider:
        assert isinstance(provider, SlurmProvider)
        self.abandon(provider)
        return self.make(provider._setting.run, provider._setting.terms.max_nodes, down_s=1.0)

    def abandon(self, provider: SlurmProvider) -> None:
        """As if its driver had been killed: nothing is ended."""
        provider._ends = True
        provider._wake.set()
        assert provider._thread is not None
        provider._thread.join()
        self.open.remove(provider)

    def settle(self, provider: Provider) -> Survey:
        assert isinstance(provider, SlurmProvider)

        def settled() -> Survey | None:
            survey = provider.survey()
            answered = {status.token for status in survey.requests if not status.open}
            ready = all(machine.ready_s is not None for machine in survey.machines)
            return survey if ready and answered >= provider._asked.keys() and not provider._inbox else None

        survey = wait_until(settled, lambda: f"not settled: {provider.survey()}")
        assert survey is not None
        return survey

    def close(self) -> None:
        for provider in self.open:
            provider.close()
            final_check = provider.final_check()
            assert final_check is not None
            assert final_check.left == (), final_check
            assert "listing of Slurm" in final_check.how
