"""Plans: for every stage, how its slots are divided among its trials and how many nodes are held; workloads.

A division is any number of gangs of any size: if there are fewer gangs than trials, gangs take turns, each
taking the next trial as it gets free. The paper's fair division (RubberBand section 4.3: slots that divide
the trials or are a multiple of them) is a rule of its greedy steps, not of its executor; `fair_allocations`
is for the planner that follows it. Colocation (section 4.4): a gang that fits a node is on one node; a larger
one takes whole nodes. If models hop, every slot is a worker with its part of the data, and all trials of the
stage visit all workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from elastune.errors import InvariantError
from elastune.hopping.partitions import Hopping, useful_workers
from elastune.model.billing import bills_nodes
from elastune.model.cluster import ClusterTerms
from elastune.model.continuing import Continuing
from elastune.model.profile import ALIKE, Profile, TrialSpeed
from elastune.model.stages import Stage
from elastune.placement.staying import StageGangs, all_gangs_stay


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Allocation:
    """`gangs` gangs of `slots_per_trial` slots train at once, on `nodes` nodes."""

    nodes: int
    gangs: int  # if models hop, workers: one slot each, which trains one model at a time
    slots_per_trial: int

    @property
    def slots(self) -> int:
        return self.gangs * self.slots_per_trial


class GangRoom(NamedTuple):
    """How gangs of one size lie on nodes without being scattered: several on a node, or one on several."""

    gangs_per_node: int
    nodes_per_gang: int

    def gangs_on(self, nodes: int) -> int:
        return nodes // self.nodes_per_gang * self.gangs_per_node

    def nodes_for(self, gangs: int) -> int:
        return -(-gangs // self.gangs_per_node) * self.nodes_per_gang


def room_of(slots_per_trial: int, slots_per_node: int) -> GangRoom:
    return GangRoom(max(1, slots_per_node // slots_per_trial), -(-slots_per_trial // slots_per_node))


def allocate(*, gangs: int, slots_per_trial: int, slots_per_node: int) -> Allocation:
    """The gangs on the fewest nodes that hold them."""
    nodes = room_of(slots_per_trial, slots_per_node).nodes_for(gangs)
    return Allocation(nodes=nodes, gangs=gangs, slots_per_trial=slots_per_trial)


def divisions(
    trials: int, *, gang_sizes: range, slots_per_node: int, max_nodes: int
) -> tuple[Allocation, ...]:
    """Every useful division of a stage that fits `max_nodes` nodes, fewest nodes first.

    For each gang size and number of nodes, as many gangs as there is room for: on the same nodes one gang
    less is never faster, and costs the same.
    """
    found = []
    for slots in gang_sizes:
        room = room_of(slots, slots_per_node)
        most = min(max_nodes, room.nodes_for(trials))
        found += [
            Allocation(nodes=nodes, gangs=min(trials, room.gangs_on(nodes)), slots_per_trial=slots)
            for nodes in range(room.nodes_per_gang, most + 1, room.nodes_per_gang)
        ]
    return tuple(sorted(found))


def fair_allocations(
    trials: int, *, gang_sizes: range, slots_per_node: int, max_nodes: int
) -> tuple[Allocation, ...]:
    """Every fair division of a stage that fits `max_nodes` nodes, fewest nodes first."""
    shapes = [(gangs, gang_sizes.start) for gangs in range(1, trials) if trials % gangs == 0]
    shapes += [(trials, slots) for slots in gang_sizes]
    allocations = (allocate(gangs=g, slots_per_trial=s, slots_per_node=slots_per_node) for g, s in shapes)
    return tuple(sorted(a for a in allocations if a.nodes <= max_nodes))


def hopping_allocations(
    hopping: Hopping, *, slots_per_node: int, max_nodes: int, fixed: bool = False
) -> tuple[Allocation, ...]:
    """Every number of nodes that together hold all data and each hold some, fewest first; all their slots are
    workers, also those with a further copy. A `fixed` cluster may have more nodes: they are paid for."""
    copies = useful_workers(slots_per_node * max_nodes, hopping.partitions, hopping.replicas)
    most = max_nodes if fixed else -(-copies // slots_per_node)
    return tuple(
        Allocation(nodes=nodes, gangs=nodes * slots_per_node, slots_per_trial=1)
        for nodes in range(-(-hopping.least_workers // slots_per_node), most + 1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """The allocation of one stage, and the nodes held while it runs (a later stage may need the surplus)."""

    allocation: Allocation
    nodes_held: int

    def __post_init__(self) -> None:
        if self.nodes_held < self.allocation.nodes:
            raise InvariantError(f"a stage must hold the nodes that it uses, got {self}")


@dataclass(frozen=True, slots=True)
class Plan:
    stages: tuple[StagePlan, ...]

    @property
    def peak_nodes(self) -> int:
        return max(stage.nodes_held for stage in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One sequence of stages on nodes of its own."""

    stages: tuple[Stage, ...]
    profile: Profile
    cluster: ClusterTerms
    node_ages_s: tuple[float, ...] = ()
    """Of nodes held at the start of the first stage. Their age is paid, the rest of their minimum not."""
    resumes: bool = False  # the trials of the first stage have checkpoints to load
    slots_now: int = 0  # of the gangs that all trials of the first stage have already; 0: some have none
    speeds: tuple[TrialSpeed, ...] = ()  # of the trials of the first stage; empty: nothing is known of them
    hopping: Hopping | None = None
    worst_case: bool = True  # quantiles are those of the slowest survivors
    continuing: Continuing = Continuing.CHECKPOINT
    goals: tuple[int, ...] = ()  # iterations that a trial has done after each stage
    most_slots: int | None = None  # if models hop: slots that one trial may train on; None: any number

    @property
    def is_deterministic(self) -> bool:
        certain = self.profile.is_deterministic and self.cluster.is_deterministic
        return certain and not self.speeds_differ

    @property
    def trial_speeds(self) -> tuple[TrialSpeed, ...]:
        """Of each trial of the first stage."""
        return self.speeds or (TrialSpeed(1.0, self.profile.spread),) * self.stages[0].trials

    @property
    def speeds_differ(self) -> bool:
        if not self.speeds:
            return self.profile.spread > 0.0
        return any(speed != ALIKE for speed in self.speeds)

    def repeated(self, stage: int, *, kept: bool) -> tuple[int, ...]:
        """Iterations that each trial of a stage trains again, because it cannot be saved; empty: none."""
        if self.continuing is Continuing.CHECKPOINT or not self.goals:
            return ()
        goal, continuing = self.goals[stage], self.continuing
        return tuple(continuing.repeated(goal - work, kept=kept) for work in self.stages[stage].work)

    def reads_s(self, stage: int) -> float:
        """A checkpoint is read at the start of a gang, if there is one."""
        return self.profile.transfer_s if stage > 0 or self.resumes else 0.0

    def keeps_gangs(self, stage: int, before: StagePlan | None, planned: StagePlan) -> bool:
        """Whether all trials of a stage go on in their gangs, without a start-up, whichever survive.

        `before` is the plan of the stage before, None in the first one.
        """
        trials, billed = self.stages[stage].trials, not bills_nodes(self.cluster)
        now = _gangs_of(planned, trials)
        if before is not None:
            earlier = _gangs_of(before, self.stages[stage - 1].trials)
        elif self.slots_now:
            nodes = len(self.node_ages_s)
            earlier = StageGangs(slots=self.slots_now, gangs=trials, trials=trials, nodes=nodes)
        else:
            return False
        return self.hopping is None and all_gangs_stay(earlier, now, waiting_is_billed=billed)


def _gangs_of(planned: StagePlan, trials: int) -> StageGangs:
    use = planned.allocation
    return StageGangs(slots=use.slots_per_trial, gangs=use.gangs, trials=trials, nodes=planned.nodes_held)


def kept_stages(workload: Workload, plan: Plan) -> list[bool]:
    """For each stage of a plan, whether all its trials go on in their gangs."""
    stages = enumerate(zip((None, *plan.stages[:-1]), plan.stages, strict=True))
    return [workload.keeps_gangs(stage, before, planned) for stage, (before, planned) in stages]
