"""Epochs of a large cluster: what placement meets between two decisions of a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from elastune.model.ids import NodeId, TrialId
from elastune.placement.controller import place
from elastune.placement.request import PlacementNodes, PlacementRequest, SlotWish

POWERS = (1, 1, 1, 2, 2, 4)
ODD = (1, 1, 2, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large the cluster is and how many gangs there are."""

    nodes: int = 1000
    slots_per_node: int = 4
    gangs: int = 2000
    load: float = 0.95

    @property
    def slots(self) -> int:
        return round(self.load * self.nodes * self.slots_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A request, and how many nodes are to be kept if some are to be emptied."""

    name: str
    request: PlacementRequest
    nodes_kept: int | None = None


def fresh(scale: Scale, random: Random, sizes: Sequence[int] = POWERS) -> PlacementRequest:
    """All gangs at once on an empty cluster that they nearly fill."""
    slots = random.choices(sizes, k=scale.gangs)
    while sum(slots) > scale.slots:
        largest = slots.index(max(slots))
        slots[largest] = min(sizes)
    return PlacementRequest(
        cluster=PlacementNodes(
            nodes=tuple(NodeId(f"node-{i:04}") for i in range(scale.nodes)),
            slots_per_node=scale.slots_per_node,
        ),
        wishes=tuple(SlotWish(trial=TrialId(i), slots=n) for i, n in enumerate(slots)),
    )


def following(request: PlacementRequest, change: Callable[[SlotWish], SlotWish | None]) -> PlacementRequest:
    """The next epoch: gangs lie where they were put, wishes have changed."""
    wishes = tuple(wish for old in request.wishes if (wish := change(old)) is not None)
    return replace(request, present=place(request).gangs, wishes=wishes)


def scenes(scale: Scale, seed: int) -> list[Scene]:
    """From the first placement to a scale-down."""
    random = Random(seed)
    first, odd = fresh(scale, random), fresh(scale, random, ODD)
    thinned = following(first, lambda wish: wish if random.random() < 0.5 else None)
    room = scale.slots - sum(wish.slots for wish in thinned.wishes)
    newcomers = tuple(
        SlotWish(trial=TrialId(scale.gangs + i), slots=scale.slots_per_node)
        for i in range(room // scale.slots_per_node)
    )
    ends = scale.nodes // 20
    return [
        Scene(name="from scratch", request=first),
        Scene(name="10 % of wishes change", request=following(first, _redraw(random, POWERS))),
        Scene(name="half stop, whole nodes wished", request=_with(thinned, newcomers)),
        Scene(name="half stop, pack on 60 % of nodes", request=thinned, nodes_kept=scale.nodes * 6 // 10),
        Scene(name="every 20th node lost", request=_lose(following(first, lambda wish: wish), ends)),
        Scene(
            name="twice as many wishes as room", request=_with(first, _renumbered(first.wishes, scale.gangs))
        ),
        Scene(name="from scratch, sizes 1 2 3", request=odd),
        Scene(name="10 % change, sizes 1 2 3", request=following(odd, _redraw(random, ODD))),
        Scene(
            name="half stop, pack, sizes 1 2 3",
            request=following(odd, lambda wish: wish if random.random() < 0.5 else None),
            nodes_kept=scale.nodes * 6 // 10,
        ),
    ]


def _redraw(random: Random, sizes: Sequence[int]) -> Callable[[SlotWish], SlotWish]:
    return lambda wish: replace(wish, slots=random.choice(sizes)) if random.random() < 0.1 else wish


def _with(request: PlacementRequest, wishes: Sequence[SlotWish]) -> PlacementRequest:
    return replace(request, wishes=(*wishes, *request.wishes))


def _renumbered(wishes: Sequence[SlotWish], by: int) -> tuple[SlotWish, ...]:
    return tuple(replace(wish, trial=TrialId(wish.trial + by)) for wish in wishes)


def _lose(request: PlacementRequest, count: int) -> PlacementRequest:
    nodes = request.cluster.nodes
    left = tuple(node for i, node in enumerate(nodes) if i % (len(nodes) // count))
    return replace(request, cluster=replace(request.cluster, nodes=left))
