"""Inside an allocation of Slurm: its machines are nodes at hand, with real Ray nodes."""

from __future__ import annotations

import sys

import pytest

from tests.providers.slurm.rig import SlurmRig

PROGRAM = """
import time
from elastune.model.cluster import ClusterTerms
from elastune.providers.protocol import ProviderSetting
from elastune.providers.registry import load_provider

terms = ClusterTerms(slots_per_node=1, max_nodes=4, price_per_hour=0.0)
options = {"address": "127.0.0.2", "slot_cpus": 1, "slot_gpus": 0}
setting = ProviderSetting(run="r", terms=terms, clock=time.monotonic, options=options)
provider = load_provider("slurm")(setting)
with provider:
    provider.request("a", 3)
    while not (machines := provider.survey().machines) or any(each.ready_s is None for each in machines):
        assert not provider.boot_logs(), provider.boot_logs()
        time.sleep(0.2)
    (answer,) = provider.survey().requests
print(type(provider).__name__, len(answer.granted), answer.refused, answer.reason)
print("left", provider.final_check().left)
"""


@pytest.mark.slow  # a head and two nodes of Ray
def test_the_machines_of_an_allocation_are_nodes_at_hand(slurm: SlurmRig) -> None:
    command = ("salloc", "--quiet", "--nodes=2", "--ntasks=2", "--time=10", sys.executable, "-c", PROGRAM)
    said = slurm.call(*command).splitlines()
    assert said == ["AllocationProvider 2 1 there are 2 machines, and 0 of them were taken", "left ()"]
    assert slurm.jobs() == []
