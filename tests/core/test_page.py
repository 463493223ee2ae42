"""The policy that the page about the brain shows is one that works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastune.core.policy import Policy
from elastune.job.job import Job
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Simulation, unnamed
from elastune.setup.run_setup import RunSetup, prepare
from tests.test_documents import ROOT, blocks

PAGE = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPolicy(RunSetup):
    create: Callable[[object], Policy]

    def make_policy(self, seed: int) -> Policy:
        return self.create(None)


def test_the_policy_of_the_page_trains_every_trial_to_the_end() -> None:
    names: dict[str, Callable[[object], Policy]] = {}
    exec(compile(blocks(PAGE, "python")[0], "page", "exec"), names)
    job = Job.from_dict(
        {
            "trainable": "synthetic:hypersched",
            "search": {"algorithm": "asha", "max_iterations": 10, "trials": 4},
            "profile": {"iteration": 10},
            "cluster": {"slots_per_node": 2, "max_nodes": 3, "price_per_hour": 1},
        }
    )
    plain = prepare(job)
    fields = ("job", "policy", "choice", "terms", "tuning", "quote", "search")
    setup = OwnPolicy(**{name: getattr(plain, name) for name in fields}, create=names["create"])
    simulation = Simulation(setup, seed=0, journal=MemoryJournal(), record=unnamed(setup))
    simulation.run()
    state = simulation.core.state
    assert [trial.phase.value for trial in state.trials.values()] == ["finished"] * 4
    assert state.ended_s == 200.0  # two at a time, ten iterations of ten seconds each
