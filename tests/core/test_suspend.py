"""A suspended run: everything is saved and released, and after `Resumed` it goes on unchanged."""

from __future__ import annotations

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.journal.writer import MemoryJournal
from elastune.runs.simulation import Simulation, belief_of, unnamed
from elastune.setup.run_setup import prepare
from tests.runs.checked_run import job_of

POLICIES = ("rubberband", "asha", "seer", "hypersched", "hyperband", "pbt", "random")


def _simulation(policy: str) -> Simulation:
    setup = prepare(job_of(deadline=600.0, budget=20.0), policy)
    return Simulation(setup, seed=3, journal=MemoryJournal(), record=unnamed(setup))


def _rest(run: Simulation) -> list[do.Command]:
    """Ask for a rest and let things happen until it is there."""
    said: list[do.Command] = []

    def think(event: ev.AnyEvent) -> list[do.AnyCommand]:
        commands = list(run.driver(event))
        said.extend(commands)
        return commands

    for command in think(ev.RestAsked(at_s=run.body.now_s, reason="Ctrl-C")):
        run.body.carry_out(command)
    while not any(isinstance(command, do.Rest | do.EndRun) for command in said) and run.body.step(think):
        pass
    return said


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("steps", [1, 3, 8, 20, 60])
def test_a_run_rests_and_goes_on(policy: str, steps: int) -> None:
    run = _simulation(policy)
    run.start()
    for _ in range(steps):
        run.step()
    state = run.core.state
    if state.shutdown is not None:
        pytest.skip("this policy is done by then")
    said = _rest(run)
    if not any(isinstance(command, do.EndRun) for command in said):
        assert not state.held
        assert not state.where
        event = run.body.crash(1000.0, belief_of(state))
        for command in run.driver(event):
            run.body.carry_out(command)
    while run.step():
        pass
    assert run.core.state.ended is not None
    assert not state.where


def test_nothing_starts_while_it_rests() -> None:
    run = _simulation("rubberband")
    run.start()
    for _ in range(6):
        run.step()
    said = _rest(run)
    assert not any(isinstance(command, do.Train | do.RequestNodes) for command in said)
    assert any(isinstance(command, do.ReleaseNodes) for command in said)
