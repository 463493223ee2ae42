"""From wishes to visits: rounds, who holds what, and what is left of an epoch after a loss."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.core.trials import Phase
from elastune.core.wishes import Advice, Wish, Wishes
from elastune.errors import InvariantError
from elastune.hopping.partitions import DataTerms
from elastune.model.cluster import Billing
from elastune.model.distributions import Constant
from elastune.model.ids import NodeId, TrialId
from elastune.model.profile import Profile, Speedup
from tests.core.harness import Harness, make_terms, notes, only, released
from tests.core.visits import Watch

FAR = 100


class Stage(Harness):
    """Every command is seen by a `Watch`; a visit ends when the test says so, by trial."""

    def __init__(
        self,
        *nodes: str,
        trials: int = 2,
        rows: tuple[float, ...] = (1.0, 1.0),
        names: tuple[tuple[str, ...], ...] = (),
        speedup: dict[int, float] | None = None,
        deadline_s: float | None = None,
        slots: int = 1,
        billing: Billing = Billing.INSTANCE,
        **data: object,
    ) -> None:
        terms = make_terms(
            slots=slots,
            billing=billing,
            deadline_s=deadline_s,
            data=DataTerms(rows=rows, **data),  # type: ignore[arg-type]
            profile=Profile(iteration=Constant(10.0), speedup=Speedup.of(speedup or {})),
        )
        assert terms.data is not None
        self.watch = Watch(terms.data.partitions, len(terms.data.validation_rows))
        self.on: dict[int, do.Train] = {}
        """The last order to every trial."""
        super().__init__(terms, Advice(wishes=Wishes(nodes={0: len(nodes)}), sample=trials))
        self.sampled(*range(trials))
        self.granted(1, *nodes)
        self.tell(ev.NodesReady(at_s=0.0, nodes=tuple(map(NodeId, nodes)), hosts=names))

    def tell(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = super().tell(event)
        self.watch.take(event, commands)
        for command in commands:
            if isinstance(command, do.Train):
                self.on[command.trial] = command
        return commands

    def wants(
        self, *trials: int, until: int = FAR, nodes: int = 2, final: bool = False
    ) -> Sequence[AnyCommand]:
        return self.wish(*(Wish(TrialId(trial), 1, until, 0, final) for trial in trials), nodes=nodes)

    def visits(self) -> dict[int, tuple[str, int]]:
        """Who is on a visit now: the node and the partition."""
        found = {}
        for trial, lease in self.watch.running.items():
            assert lease.visit is not None
            found[trial] = (str(lease.gang[0].node), lease.visit.partition)
        return found

    def ends(
        self,
        trial: int,
        *,
        kept: bool = False,
        score: float = 0.5,
        left_out: tuple[str, ...] = (),
        unused: str = "",
    ) -> Sequence[AnyCommand]:
        lease = self.watch.running[trial]
        assert lease.visit is not None
        last = lease.visit.is_last
        iteration = lease.after_iteration + 1
        return self.tell(
            ev.VisitEnded(
                at_s=self.now_s,
                trial=TrialId(trial),
                generation=lease.generation,
                rows=(ev.Row(iteration, self.now_s, {"score": score}),) if last else (),
                saved=(iteration,) if last else (),
                seconds=1.0,
                kept=kept or last,
                left_out=left_out if last else (),
                unused=unused,
            )
        )

    def epoch(self, most: int = 1000) -> None:
        """All go on until no visit is under way."""
        for _ in range(most):
            if not self.watch.running:
                return
            self.ends(min(self.watch.running))

    def iterations(self) -> dict[int, int]:
        return {int(number): trial.iteration for number, trial in self.state.trials.items()}


class TestRounds:
    def test_every_worker_holds_its_part_and_trials_take_turns(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        assert len(stage.visits()) == 2
        shares = {lease.gang[0].node: lease.shares[0] for lease in stage.watch.running.values()}
        assert sorted(partition for share in shares.values() for partition in share) == [0, 1, 2, 3]
        assert {len(share) for share in shares.values()} == {2}

    def test_an_epoch_is_one_iteration_of_every_trial(self) -> None:
        stage = Stage("n0", "n1", trials=3, rows=(1.0,) * 4)
        stage.wants(0, 1, 2, until=2, nodes=2)
        stage.epoch()
        assert stage.iterations() == {0: 2, 1: 2, 2: 2}
        assert stage.watch.visits == 3 * 4 * 2
        assert {len(order) for order in stage.watch.orders.values()} == {2}

    def test_the_next_epoch_begins_when_the_last_trial_is_through(self) -> None:
        stage = Stage("n0", "n1")
        stage.wants(0, 1)
        stage.ends(0)
        stage.ends(1)
        stage.ends(0)
        assert set(stage.visits()) == {1}, "trial 0 waits for trial 1"
        stage.ends(1)
        assert stage.iterations() == {0: 1, 1: 1}
        assert {lease.after_iteration for lease in stage.watch.running.values()} == {1}

    def test_where_epochs_overlap_a_trial_that_is_through_begins_the_next(self) -> None:
        stage = Stage("n0", "n1", overlap=True)
        stage.wants(0, 1, until=3)
        stage.ends(0)
        stage.ends(1)
        stage.ends(0)
        assert stage.iterations() == {0: 1, 1: 0}
        assert {number: lease.after_iteration for number, lease in stage.watch.running.items()} == {
            0: 1,
            1: 0,
        }
        stage.epoch()
        assert stage.iterations() == {0: 3, 1: 3}
        assert {len(order) for order in stage.watch.orders.values()} == {3}

    def test_where_epochs_overlap_some_train_while_others_are_evaluated(self) -> None:
        rows = {"rows": (1.0, 1.0), "validation_rows": (1.0,), "evaluation_share": 0.2}
        stage = Stage("n0", "n1", overlap=True, **rows)  # type: ignore[arg-type]
        stage.wants(0, 1, until=2)
        stage.ends(0)
        stage.ends(1)
        stage.ends(0)
        assert {partition for _, partition in stage.visits().values()} != {2}, "one is still training"
        assert 2 in {partition for _, partition in stage.visits().values()}
        stage.epoch()
        assert stage.iterations() == {0: 2, 1: 2}

    def test_where_epochs_overlap_a_newcomer_joins_at_once(self) -> None:
        stage = Stage("n0", "n1", trials=3, rows=(1.0,) * 4, overlap=True)
        stage.wants(0, 1, until=2)
        stage.wants(0, 1, 2, until=2)
        stage.ends(0)
        assert 2 in stage.visits()
        stage.epoch()
        assert stage.iterations() == {0: 2, 1: 2, 2: 2}

    def test_where_epochs_overlap_no_trial_begins_one_while_a_node_is_to_go(self) -> None:
        stage = Stage("n0", "n1", trials=4, overlap=True)
        stage.wants(0, 1, 2, 3, until=2)
        stage.wants(0, 1, 2, 3, until=2, nodes=1)
        for _ in range(8):
            stage.ends(min(stage.visits()))
        assert set(stage.iterations().values()) == {1}
        assert len(stage.state.where) == 1
        stage.epoch()
        assert set(stage.iterations().values()) == {2}

    def test_evaluation_comes_after_all_have_trained(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0, 1.0), validation_rows=(1.0,), evaluation_share=0.2)
        stage.wants(0, 1, until=1)
        for trial in (0, 1):
            stage.ends(trial)
        stage.ends(0)
        assert set(stage.visits()) == {1}, "one is still training"
        stage.ends(1)
        assert {partition for _, partition in stage.visits().values()} == {2}
        stage.epoch()
        assert stage.iterations() == {0: 1, 1: 1}

    def test_with_replicas_both_workers_hold_all(self) -> None:
        stage = Stage("n0", "n1", replicas=2)
        stage.wants(0, 1)
        assert {lease.shares for lease in stage.watch.running.values()} == {((0, 1),)}

    def test_a_fork_goes_on_from_the_checkpoint_of_its_parent(self) -> None:
        stage = Stage("n0", "n1")
        stage.wants(0, 1, until=1)
        stage.epoch()
        (fork,) = only(stage.advise(Advice(fork=(TrialId(0),))), do.Fork)
        assert isinstance(fork, do.Fork)
        stage.sampled(fork.trial)
        stage.wants(1, fork.trial, until=2)
        assert stage.on[fork.trial].origin == 0
        assert stage.on[fork.trial].after_iteration == 1
        stage.epoch()
        assert stage.iterations() == {0: 1, 1: 2, fork.trial: 2}


class TestLosses:
    def test_what_was_not_durable_on_a_lost_node_is_done_again(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        first = dict(stage.visits())
        stage.ends(0)
        stage.ends(1)
        there = next(trial for trial, (node, _) in first.items() if node == "n1")
        stage.lost("n1")
        assert stage.state.hop_progress[TrialId(there)].seen == []
        stage.epoch(8)
        assert stage.iterations() == {0: 1, 1: 1}
        assert stage.watch.repeated >= 1

    def test_a_durable_state_is_gone_on_from(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        there = next(trial for trial, (node, _) in stage.visits().items() if node == "n1")
        other = 1 - there
        stage.ends(there, kept=True)
        stage.ends(other)
        progress = stage.state.hop_progress[TrialId(there)]
        seen = list(progress.seen)
        stage.lost("n1")
        assert progress.seen == seen
        assert progress.safe == 1

    def test_the_partitions_of_a_lost_node_go_to_those_that_are_left(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        commands = stage.lost("n1")
        found = [text for topic, text in notes(commands) if topic == "data"]
        assert found == ["1 workers now: 2 partitions are loaded where they were not"]
        stage.epoch(8)
        assert {share for lease in stage.on.values() for share in lease.shares} == {(0, 1, 2, 3)}

    def test_a_killed_slot_process_repeats_its_visit_only(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        stage.ends(0)
        stage.ends(1)
        lease = stage.watch.running[0]
        stage.tell(ev.GangLost(at_s=0.0, trial=TrialId(0), generation=lease.generation, error="killed"))
        assert len(stage.state.hop_progress[TrialId(0)].seen) == 1
        stage.epoch(6)
        assert stage.iterations() == {0: 1, 1: 1}
        assert stage.watch.repeated == 0

    def test_a_killed_visit_whose_model_lay_on_a_lost_node_falls_back(self) -> None:
        """It was on its way to another node: had it arrived, or not?"""
        stage = Stage("n0", "n1", trials=1, rows=(1.0,) * 2, replicas=1)
        stage.wants(0, until=1)
        source = stage.visits()[0][0]
        stage.ends(0)
        target = stage.visits()[0][0]
        assert source != target
        stage.lost(source)
        assert 0 in stage.watch.running, "its model may have arrived"
        lease = stage.watch.running[0]
        stage.tell(ev.GangLost(at_s=0.0, trial=TrialId(0), generation=lease.generation, error="on its way"))
        assert stage.on[0].visit is not None
        assert stage.on[0].visit.done == 0

    def test_a_trial_that_fails_leaves_its_round_and_the_others_go_on(self) -> None:
        stage = Stage("n0", "n1")
        stage.wants(0, 1)
        stage.crashed(0, generation=stage.watch.running[0].generation)
        assert stage.trial(0).phase is Phase.FAILED
        stage.ends(1)
        stage.ends(1)
        assert stage.iterations()[1] == 1

    def test_a_nan_at_the_end_of_an_epoch_fails_the_trial(self) -> None:
        stage = Stage("n0", "n1")
        stage.wants(0, 1)
        stage.ends(0)
        stage.ends(1)
        stage.ends(0, score=float("nan"))
        assert stage.trial(0).phase is Phase.FAILED
        stage.ends(1)
        assert stage.iterations() == {0: 0, 1: 1}

    def test_a_visit_that_the_core_does_not_know_is_a_bug(self) -> None:
        stage = Stage("n0", trials=1, rows=(1.0,) * 2)
        stage.wants(0, nodes=1)
        stage.trial(0).visit = None
        with pytest.raises(InvariantError, match="ended a visit, but is on none"):
            stage.ends(0)


class TestChanges:
    def test_a_node_that_joins_amid_a_round_takes_its_part_at_once(self) -> None:
        stage = Stage("n0", trials=3, rows=(1.0,) * 4)
        stage.wants(0, 1, 2, nodes=1)
        stage.wants(0, 1, 2, nodes=2)
        stage.granted(2, "n1")
        assert set(stage.visits().values()) == {("n0", stage.visits()[min(stage.visits())][1])}
        stage.ready("n1")
        assert {node for node, _ in stage.visits().values()} == {"n0", "n1"}
        held = {lease.gang[0].node: lease.shares[0] for lease in stage.watch.running.values()}
        assert len(held[NodeId("n1")]) == 2
        stage.epoch(12)
        assert stage.iterations() == {0: 1, 1: 1, 2: 1}

    def test_a_node_with_notice_takes_nothing_new_and_its_visit_is_made_elsewhere(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        commands = stage.noticed("n1", 120.0)
        assert len(only(commands, do.Stop)) == 1
        assert {node for node, _ in stage.visits().values()} == {"n0"}
        stage.epoch(8)
        assert stage.iterations() == {0: 1, 1: 1}

    def test_a_node_is_not_given_back_amid_a_round(self) -> None:
        stage = Stage("n0", "n1")
        stage.wants(0, 1, until=1)
        assert released(stage.wants(0, 1, until=1, nodes=1)) == []
        assert len(stage.state.where) == 2
        stage.epoch()
        assert len(stage.state.where) == 1

    def test_a_node_that_is_too_many_goes_between_two_rounds(self) -> None:
        stage = Stage("n0", "n1")
        stage.wants(0, 1)
        stage.wants(0, 1, nodes=1)
        commands: list[AnyCommand] = []
        for _ in range(12):
            commands += stage.ends(min(stage.watch.running))
        assert stage.iterations() == {0: 3, 1: 3}
        assert len(released(commands)) == 1

    def test_a_trial_that_is_stopped_amid_a_round_is_out_at_once(self) -> None:
        stage = Stage("n0", "n1", trials=3)
        stage.wants(0, 1, 2)
        running = min(stage.visits())
        commands = stage.advise(Advice(stop=(TrialId(running),)))
        assert [command.trial for command in only(commands, do.Stop) if isinstance(command, do.Stop)] == [
            running
        ]
        assert running not in stage.visits()
        left = {0, 1, 2} - {running}
        for _ in range(4):
            stage.ends(min(stage.visits()))
        assert {trial: stage.iterations()[trial] for trial in left} == dict.fromkeys(left, 1)

    def test_who_is_no_longer_wished_for_leaves_and_may_come_back_where_it_was(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        stage.ends(0)
        stage.ends(1)
        seen = list(stage.state.hop_progress[TrialId(0)].seen)
        stage.wants(1)
        assert 0 not in stage.visits()
        stage.wants(0, 1)
        for _ in range(20):
            if stage.on[0].visit is not None and 0 in stage.visits():
                break
            stage.ends(1)
        assert stage.on[0].visit is not None
        assert stage.on[0].visit.done == len(seen)
        assert stage.on[0].visit.partition not in seen

    def test_new_wishes_for_the_same_trials_leave_their_visits_alone(self) -> None:
        stage = Stage("n0", "n1")
        stage.wants(0, 1, until=3)
        assert only(stage.wants(0, 1, until=5), do.Stop) == []
        assert len(stage.visits()) == 2

    def test_a_newcomer_waits_for_the_next_round(self) -> None:
        stage = Stage("n0", "n1", trials=3)
        stage.wants(0, 1)
        stage.wants(0, 1, 2)
        assert 2 not in stage.visits()
        for _ in range(4):
            stage.ends(min(stage.visits()))
        assert set(stage.watch.running) | {2} == {0, 1, 2} or 2 in stage.visits()
        stage.epoch(6)
        assert stage.iterations()[2] == 1

    def test_data_are_laid_out_once_all_nodes_that_are_coming_are_there(self) -> None:
        stage = Stage("n0", trials=2, rows=(1.0,) * 4)
        stage.wish(nodes=2)
        stage.granted(2, "n1")
        stage.wants(0, 1)
        assert stage.visits() == {}
        stage.ready("n1")
        assert {node for node, _ in stage.visits().values()} == {"n0", "n1"}


class TestLimits:
    def test_an_epoch_that_would_end_too_late_is_not_begun(self) -> None:
        stage = Stage("n0", "n1", deadline_s=25.0)
        stage.wants(0, 1)
        for at_s in (5.0, 10.0):
            stage.at(at_s)
            for trial in tuple(stage.visits()):
                stage.ends(trial)
        assert stage.iterations() == {0: 1, 1: 1}
        assert len(stage.visits()) == 2, "ten more seconds are there"
        for at_s in (15.0, 24.0):
            stage.at(at_s)
            for trial in tuple(stage.visits()):
                stage.ends(trial)
        assert stage.iterations() == {0: 2, 1: 2}
        assert stage.visits() == {}
        assert stage.state.shutdown is not None or stage.state.ended is not None

    def test_the_best_trials_take_part_where_there_is_no_time_for_all(self) -> None:
        stage = Stage("n0", trials=3, rows=(1.0,) * 2, deadline_s=25.0)
        stage.wants(2, 0, 1, nodes=1)
        taking_part = set()
        while stage.watch.running:
            taking_part |= set(stage.visits())
            stage.ends(min(stage.watch.running))
            if stage.iterations()[2]:
                break
        assert 1 not in taking_part
        assert stage.trial(1).late_after_s is not None


class TestRest:
    @pytest.mark.parametrize("error", [None, "the disk is full"])
    def test_a_rest_saves_models_and_a_resumed_run_goes_on_from_there(self, error: str | None) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        stage.ends(0, kept=True)
        stage.ends(1)
        assert stage.watch.running
        commands = stage.tell(ev.RestAsked(at_s=0.0, reason="Ctrl-C"))
        assert stage.visits() == {}
        (stow,) = only(commands, do.Stow)
        assert isinstance(stow, do.Stow)
        assert (stow.trial, stow.iteration, stow.visits) == (1, 1, 1)
        assert len(released(commands)) == 1, "the model lies on the other one"
        assert only(commands, do.Rest) == []
        stowed = ev.ModelStowed(
            at_s=0.0, trial=TrialId(1), generation=stow.generation, iteration=1, visits=1, error=error
        )
        commands = [*commands, *stage.tell(stowed)]
        assert sorted(released(commands)) == ["n0", "n1"]
        assert len(only(commands, do.Rest)) == 1
        again = stage.tell(ev.Resumed(at_s=0.0, down_s=60.0))
        (request,) = only(again, do.RequestNodes)
        assert isinstance(request, do.RequestNodes)
        stage.granted(request.request, "n2", "n3")
        stage.ready("n2", "n3")
        done = {trial: lease.visit.done for trial, lease in stage.watch.running.items() if lease.visit}
        assert done == {0: 1, 1: 0 if error else 1}
        stage.epoch(6 + (error is not None))
        assert stage.iterations() == {0: 1, 1: 1}

    def test_a_model_that_is_gone_costs_what_was_not_durable_and_is_no_fault_of_the_trial(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        stage.ends(0, kept=True)
        stage.ends(1)
        for _ in range(5):
            for trial in (0, 1):
                lease = stage.on[trial]
                stage.tell(
                    ev.GangLost(
                        at_s=0.0,
                        trial=TrialId(trial),
                        generation=lease.generation,
                        error="OwnerDiedError",
                        model_lost=True,
                    )
                )
        done = {trial: lease.visit.done for trial, lease in stage.watch.running.items() if lease.visit}
        assert done == {0: 1, 1: 0}
        stage.epoch(7)
        assert stage.iterations() == {0: 1, 1: 1}

    def test_a_notice_saves_the_models_that_lie_there(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1)
        stage.ends(0)
        stage.ends(1)
        at = {trial: progress.at for trial, progress in stage.state.hop_progress.items()}
        commands = stage.tell(ev.NodeNoticed(at_s=0.0, node=NodeId("n0"), until_s=120.0))
        there = [trial for trial, node in at.items() if node == "n0" and trial not in stage.visits()]
        assert [command.trial for command in commands if isinstance(command, do.Stow)] == there


def test_a_metric_of_a_part_of_the_data_is_noted_once() -> None:
    stage = Stage("n0", "n1")
    stage.wants(0, 1, until=2)
    told: list[tuple[str, str]] = []
    while stage.watch.running:
        told += notes(stage.ends(min(stage.watch.running), left_out=("auc",)))
    assert [text for topic, text in told if topic == "metrics"] == [
        "some visits of trial 0 reported no 'auc': its mean is over the others; report it for every partition"
    ]


def test_data_that_a_training_does_not_use_are_noted_once() -> None:
    stage = Stage("n0", "n1")
    stage.wants(0, 1, until=1)
    told: list[tuple[str, str]] = []
    while stage.watch.running:
        told += notes(stage.ends(min(stage.watch.running), unused="step of Net used 20 of 100 rows"))
    assert told == [("data", "trial 0: step of Net used 20 of 100 rows")]


def test_a_round_waits_for_trials_that_are_being_drawn() -> None:
    stage = Stage("n0", "n1", trials=2)
    wishes = Wishes(trials=(Wish(TrialId(0), 1, 1), Wish(TrialId(1), 1, 1)), nodes={0: 2})
    stage.advise(Advice(wishes=wishes, sample=1))
    assert not stage.visits()
    stage.policy.advice = Advice(wishes=Wishes(trials=(*wishes.trials, Wish(TrialId(2), 1, 1)), nodes={0: 2}))
    stage.sampled(2)
    assert len(stage.state.hop_progress) == 3


def test_of_more_nodes_than_a_plan_uses_those_are_workers_that_it_uses() -> None:
    stage = Stage("n0", "n1", rows=(1.0,) * 4)
    trials = (Wish(TrialId(0), 1, 1), Wish(TrialId(1), 1, 1))
    stage.advise(Advice(wishes=Wishes(trials=trials, nodes={0: 2}, at_once={0: 1})))
    assert list(stage.visits().values()) == [("n0", stage.on[0].shares[0][0])]


class TestTogether:
    def make(self, trials: int = 2) -> Stage:
        return Stage("n0", "n1", trials=trials, rows=(1.0,) * 4, speedup={1: 1.0, 2: 1.9})

    def test_the_last_trial_has_all_workers(self) -> None:
        stage = self.make()
        stage.wants(0, until=2)
        (lease,) = stage.watch.together.values()
        assert lease.visit is None
        assert [slot.node for slot in lease.gang] == ["n0", "n1"]
        assert sorted(lease.shares) == sorted([lease.shares[0], lease.shares[1]])
        assert sorted(partition for share in lease.shares for partition in share) == [0, 1, 2, 3]

    def test_others_come_back_and_all_hop_again(self) -> None:
        stage = self.make(trials=4)
        stage.wants(0, until=3)
        assert list(stage.watch.together) == [0]
        lease = stage.watch.together[0]
        stage.started(0, lease.generation)
        commands = stage.wants(0, 1, 2, 3, until=3)
        assert len(only(commands, do.Revoke)) == 1
        stage.lease_ended(0, 0.5, generation=lease.generation, reason=ev.LeaseEnd.REVOKED)
        stage.paused(0, lease.generation)
        assert len(stage.visits()) == 2
        while stage.visits():
            stage.ends(min(stage.visits()))
        assert stage.iterations()[1] >= 1

    def test_a_partition_that_is_left_over_is_for_all(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 3, speedup={1: 1.0, 2: 1.9})
        stage.wants(0)
        assert stage.watch.together[0].shares == ((0, 2), (1, 2))

    def test_the_first_epoch_shows_whether_it_is_faster(self) -> None:
        """The profile says 1.9; on these workers it is 0.5, and the trial hops from then on."""
        stage = self.make()
        stage.wants(0, until=3)
        lease = stage.watch.together[0]
        assert lease.until_iteration == 1
        stage.started(0, lease.generation)
        stage.at(20.0)
        commands = stage.lease_ended(0, 0.5, generation=lease.generation)
        assert len(only(commands, do.Pause)) == 1
        stage.paused(0, lease.generation)
        assert not stage.watch.together
        assert len(stage.visits()) == 1

    def test_what_is_faster_goes_on_to_its_goal(self) -> None:
        stage = self.make()
        stage.wants(0, until=3)
        lease = stage.watch.together[0]
        stage.started(0, lease.generation)
        stage.at(6.0)
        stage.lease_ended(0, 0.5, generation=lease.generation)
        assert stage.watch.together[0].until_iteration == 3

    def test_without_a_measured_speed_up_one_epoch_of_the_last_trial_measures_it(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4)
        stage.wants(0, 1, until=1)
        assert not stage.watch.together, "the other trial would wait"
        stage.epoch()
        stage.wants(0, until=9)
        assert stage.watch.together[0].until_iteration == 2

    def test_where_idle_workers_cost_nothing_no_gang_measures(self) -> None:
        stage = Stage("n0", "n1", rows=(1.0,) * 4, billing=Billing.FUNCTION)
        stage.wants(0, until=9)
        assert not stage.watch.together

    def test_a_trial_amid_an_epoch_hops_to_its_end_also_alone(self) -> None:
        stage = self.make(trials=4)
        stage.wants(0, 1, 2, 3)
        for _ in range(4):
            stage.ends(min(stage.visits()))
        amid = next(trial for trial, each in stage.state.hop_progress.items() if 0 < len(each.seen) < 4)
        stage.wants(*({0, 1, 2, 3} - {amid}))
        stage.wants(amid)
        assert stage.watch.together == {}
        visit = stage.on[amid].visit
        assert visit is not None
        assert visit.done > 0


class TestHosts:
    def make(self, hosts: dict[int, str]) -> Stage:
        given = tuple((number, frozenset({name})) for number, name in hosts.items())
        return Stage("n0", "n1", names=(("alpha", "10.0.0.1"), ("beta", "10.0.0.2")), hosts=given)

    def test_partitions_go_where_they_can_be_reached(self) -> None:
        stage = self.make({0: "beta", 1: "10.0.0.1"})
        stage.wants(0, 1)
        held = {lease.gang[0].node: lease.shares[0] for lease in stage.watch.running.values()}
        assert held == {"n0": (1,), "n1": (0,)}

    def test_a_partition_that_no_machine_has_ends_the_run_with_the_reason(self) -> None:
        stage = self.make({0: "gamma"})
        commands = stage.wants(0, 1)
        assert (
            "data",
            "partition 0 is on none of the machines that are there; data.hosts has it on gamma",
        ) in notes(commands)
        (end,) = only(commands, do.EndRun)
        assert isinstance(end, do.EndRun)
        assert end.reason is do.Ending.FAILED
