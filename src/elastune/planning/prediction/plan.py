"""Plans: for every stage, how its slots are divided among its trials and how many nodes are held; workloads.

Fair division (RubberBand section 4.3): either every trial has a gang of the same size and all run at
once, or a number of smallest gangs that divides the number of trials takes turns. Colocation (section
4.4): a gang that fits a node is on one node; a larger one takes whole nodes. If models hop, every slot is a
worker with its part of the data, and all trials of the stage visit all workers.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastune.errors import InvariantError
from elastune.hopping.partitions import Hopping, useful_workers
from elastune.model.cluster import ClusterTerms
from elastune.model.profile import Profile
from elastune.model.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Allocation:
    """`gangs` gangs of `slots_per_trial` slots train at once, on `nodes` nodes."""

    nodes: int
    gangs: int  # if models hop, workers: one slot each, which trains one model at a time
    slots_per_trial: int

    @property
    def slots(self) -> int:
        return self.gangs * self.slots_per_trial


def allocate(*, gangs: int, slots_per_trial: int, slots_per_node: int) -> Allocation:
    """The gangs on the fewest nodes that hold them without scattering a gang."""
    if slots_per_trial > slots_per_node:
        nodes = gangs * -(-slots_per_trial // slots_per_node)
    else:
        nodes = -(-gangs // (slots_per_node // slots_per_trial))
    return Allocation(nodes=nodes, gangs=gangs, slots_per_trial=slots_per_trial)


def fair_allocations(
    trials: int, *, gang_sizes: range, slots_per_node: int, max_nodes: int
) -> tuple[Allocation, ...]:
    """Every fair division of a stage that fits `max_nodes` nodes, fewest nodes first."""
    shapes = [(gangs, gang_sizes.start) for gangs in range(1, trials) if trials % gangs == 0]
    shapes += [(trials, slots) for slots in gang_sizes]
    allocations = (allocate(gangs=g, slots_per_trial=s, slots_per_node=slots_per_node) for g, s in shapes)
    return tuple(sorted(a for a in allocations if a.nodes <= max_nodes))


def hopping_allocations(hopping: Hopping, *, slots_per_node: int, max_nodes: int) -> tuple[Allocation, ...]:
    """Every number of nodes that together hold all data and each hold some, fewest first."""
    copies = useful_workers(slots_per_node * max_nodes, hopping.partitions, hopping.replicas)
    most = -(-copies // slots_per_node)
    return tuple(
        Allocation(nodes=nodes, gangs=min(nodes * slots_per_node, copies), slots_per_trial=1)
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
    hopping: Hopping | None = None
    most_slots: int | None = None  # if models hop: slots that one trial may train on; None: any number

    @property
    def is_deterministic(self) -> bool:
        return self.profile.is_deterministic and self.cluster.is_deterministic
