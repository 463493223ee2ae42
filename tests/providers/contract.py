"""What every provider owes, whatever its machines are. `docs/providers.md` says it in words.

To test a provider, derive a class `Test...` from `ProviderContract` and give it a fixture `stage`.
"""

from __future__ import annotations

from typing import Protocol

import pytest

from elastune.core.events import NodesGranted, NodesReady
from elastune.errors import InvariantError
from elastune.model.ids import NodeId
from elastune.providers.protocol import MachineState, Provider, RequestStatus, Survey
from elastune.providers.watcher import Watcher


class Stage(Protocol):
    """Where a provider is put to the test. No test asks for more than four nodes at a time."""

    def provider(self, *, room: int = 4) -> Provider:
        """One for a new run, with room for this many nodes. It knows no other run."""
        ...

    def reopen(self, provider: Provider) -> Provider:
        """What a new driver of the same run gets after the old one crashed."""
        ...

    def settle(self, provider: Provider) -> Survey:
        """Wait until all requests are answered and all machines are ready."""
        ...


def nodes(survey: Survey) -> list[NodeId]:
    return [machine.node for machine in survey.machines]


def status(survey: Survey, token: str) -> RequestStatus:
    (found,) = [status for status in survey.requests if status.token == token]
    return found


class ProviderContract:
    def test_a_new_run_has_nothing(self, stage: Stage) -> None:
        survey = stage.provider().survey()
        assert (survey.machines, survey.requests) == ((), ())

    def test_a_request_yields_exactly_so_many_nodes(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 2)
        survey = stage.settle(provider)
        assert len(set(nodes(survey))) == 2
        assert status(survey, "a") == RequestStatus(token="a", asked=2, granted=tuple(nodes(survey)))
        assert {machine.state for machine in survey.machines} == {MachineState.READY}

    def test_machines_tell_their_token(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 1)
        provider.request("b", 2)
        survey = stage.settle(provider)
        assert sorted(machine.token for machine in survey.machines) == ["a", "b", "b"]
        for machine in survey.machines:
            assert machine.node in status(survey, machine.token).granted

    def test_times_are_in_order_and_not_in_the_future(self, stage: Stage) -> None:
        provider = stage.provider()
        before_s = provider.survey().at_s
        provider.request("a", 1)
        survey = stage.settle(provider)
        for machine in survey.machines:
            assert machine.ready_s is not None
            assert before_s <= machine.since_s <= machine.ready_s <= survey.at_s

    def test_what_a_survey_told_stays_true(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 1)
        survey = stage.settle(provider)
        provider.request("b", 1)
        later = stage.settle(provider)
        assert later.machines[:1] == survey.machines
        assert status(later, "a") == status(survey, "a")

    def test_the_same_token_again_brings_no_new_nodes(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 1)
        provider.request("a", 1)
        survey = stage.settle(provider)
        provider.request("a", 1)
        assert len(survey.machines) == 1
        assert stage.settle(provider).machines == survey.machines

    def test_the_token_of_released_nodes_does_not_bring_them_back(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 1)
        provider.release(nodes(stage.settle(provider)))
        provider.request("a", 1)
        assert stage.settle(provider).machines == ()

    def test_a_token_stands_for_one_request(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 1)
        with pytest.raises(InvariantError, match="token"):
            provider.request("a", 2)

    @pytest.mark.parametrize("count", [0, -1])
    def test_a_request_for_nothing_is_a_bug_of_the_caller(self, stage: Stage, count: int) -> None:
        with pytest.raises(InvariantError, match="expected at least 1"):
            stage.provider().request("a", count)

    def test_release_is_exact(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 3)
        first, second, third = nodes(stage.settle(provider))
        provider.release([second])
        assert nodes(provider.survey()) == [first, third]

    def test_a_released_node_stays_in_the_fate_of_its_request(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 1)
        before = stage.settle(provider)
        provider.release(nodes(before))
        assert status(provider.survey(), "a") == status(before, "a")

    def test_releasing_twice_or_what_never_was_is_harmless(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 2)
        first, second = nodes(stage.settle(provider))
        provider.release([first])
        provider.release([first, NodeId("never-was")])
        provider.release([])
        assert nodes(provider.survey()) == [second]

    def test_nodes_can_be_released_before_they_are_ready(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 2)
        provider.release(nodes(provider.survey()))
        provider.release(nodes(stage.settle(provider)))
        assert provider.survey().machines == ()

    def test_nothing_is_left_after_the_release_of_all(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 1)
        provider.request("b", 1)
        provider.release(nodes(stage.settle(provider)))
        assert provider.survey().machines == ()
        assert stage.settle(provider).machines == ()

    def test_a_name_is_never_used_again(self, stage: Stage) -> None:
        provider = stage.provider()
        met: list[NodeId] = []
        for token in ("a", "b", "c"):
            provider.request(token, 1)
            met += nodes(stage.settle(provider))
            provider.release(met)
        assert len(set(met)) == len(met) == 3

    def test_a_request_without_room_is_refused_with_a_reason(self, stage: Stage) -> None:
        provider = stage.provider(room=1)
        provider.request("a", 1)
        before = stage.settle(provider)
        provider.request("b", 1)
        survey = stage.settle(provider)
        refusal = status(survey, "b")
        assert (refusal.granted, refusal.refused) == ((), 1)
        assert refusal.reason
        assert survey.machines == before.machines

    def test_what_exceeds_the_room_is_refused_and_every_node_is_accounted_for(self, stage: Stage) -> None:
        """All or nothing is allowed, and so is a part. A part that is granted is listed."""
        provider = stage.provider(room=2)
        provider.request("a", 3)
        survey = stage.settle(provider)
        answer = status(survey, "a")
        assert answer.refused >= 1
        assert answer.reason
        assert answer.open == 0
        assert list(answer.granted) == nodes(survey)

    def test_another_limit_of_nodes_holds_from_then_on(self, stage: Stage) -> None:
        provider = stage.provider(room=4)
        provider.limit_nodes(1)
        provider.request("a", 2)
        first = status(stage.settle(provider), "a")
        assert (len(first.granted), first.refused) == (1, 1)
        assert "at most 1 node" in first.reason
        provider.limit_nodes(3)
        provider.request("b", 2)
        assert len(status(stage.settle(provider), "b").granted) == 2

    def test_released_room_can_be_had_again(self, stage: Stage) -> None:
        provider = stage.provider(room=1)
        provider.request("a", 1)
        provider.release(nodes(stage.settle(provider)))
        provider.request("b", 1)
        assert len(stage.settle(provider).machines) == 1

    def test_a_new_driver_finds_what_the_old_one_left(self, stage: Stage) -> None:
        provider = stage.provider()
        provider.request("a", 2)
        left = stage.settle(provider)
        reopened = stage.reopen(provider)
        reopened.request("a", 2)
        found = stage.settle(reopened)
        assert sorted(nodes(found)) == sorted(nodes(left))
        assert {machine.token for machine in found.machines} == {"a"}
        reopened.release(nodes(found))
        assert reopened.survey().machines == ()

    def test_runs_do_not_see_each_other(self, stage: Stage) -> None:
        ours, theirs = stage.provider(room=1), stage.provider(room=1)
        ours.request("a", 1)
        theirs.request("a", 1)
        mine = stage.settle(ours)
        theirs.release(nodes(stage.settle(theirs)))
        assert theirs.survey().machines == ()
        assert ours.survey().machines == mine.machines

    def test_the_price_is_sane(self, stage: Stage) -> None:
        price = stage.provider().price()
        assert 0.0 <= price.usd_per_hour < 1_000.0
        assert price.minimum_charge_s >= 0.0
        assert price.data_usd_per_node >= 0.0
        assert price.source

    def test_a_watcher_can_follow(self, stage: Stage) -> None:
        provider, watcher = stage.provider(), Watcher()
        provider.request(watcher.expect(1), 2)
        events = watcher.observe(provider.survey()) + watcher.observe(stage.settle(provider))
        survey = provider.survey()
        granted = [node for event in events if isinstance(event, NodesGranted) for node in event.nodes]
        ready = [node for event in events if isinstance(event, NodesReady) for node in event.nodes]
        assert sorted(granted) == sorted(ready) == sorted(nodes(survey))
        assert watcher.belief.machines == survey.machines
        watcher.release(nodes(survey))
        provider.release(nodes(survey))
        assert watcher.observe(provider.survey()) == ()
