"""Small clusters with gangs lying about at random, and wishes that change some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from elastune.model.ids import Gang, NodeId, Slot, TrialId
from elastune.placement.request import PlacementNodes, PlacementRequest, ShrinkTo, SlotWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How large the clusters are and which gang sizes occur on nodes of so many slots."""

    sizes: dict[int, tuple[int, ...]]
    max_nodes: int = 4
    max_gangs: int = 6


# Each divides the next, or takes whole nodes.
DIVISIBLE = Kind(sizes={1: (1, 2), 2: (1, 2, 4), 4: (1, 2, 4, 8)})
ODD_NODES = Kind(sizes={3: (1, 2, 3, 6), 6: (1, 2, 4, 6, 12), 9: (1, 3, 9)})
MIXED = Kind(sizes={3: (1, 2, 3, 5), 4: (1, 2, 3, 4, 6), 8: (1, 2, 3, 4, 5, 6, 7, 8)})
LARGER = Kind(sizes={4: (1, 2, 4, 8), 8: (1, 2, 3, 4, 5, 8, 16)}, max_nodes=8, max_gangs=20)


def random_request(
    random: Random, kind: Kind, *, shrink_to: ShrinkTo = ShrinkTo.POWER_OF_TWO
) -> PlacementRequest:
    slots_per_node = random.choice(list(kind.sizes))
    sizes = kind.sizes[slots_per_node]
    nodes = tuple(NodeId(f"n{i}") for i in range(random.randint(1, kind.max_nodes)))
    # Small gangs lie about, large ones come: that is what makes gangs move.
    lying = random.choices(sizes[: random.randint(1, len(sizes))], k=random.randint(0, kind.max_gangs))
    present = _scatter(random, nodes, slots_per_node, lying)
    calm = random.random() < 0.6
    wishes = _change(random, present, sizes, calm=calm)
    room = len(nodes) * slots_per_node - sum(wish.slots for wish in wishes)
    for trial in range(100, 100 + random.randint(0, max(0, kind.max_gangs - len(wishes)))):
        slots = random.choice(sizes)
        if slots <= room or not calm:
            wishes.append(SlotWish(trial=TrialId(trial), slots=slots))
            room -= slots
    random.shuffle(wishes)
    trouble = 0.0 if calm else 0.08
    return PlacementRequest(
        cluster=PlacementNodes(
            nodes=tuple(node for node in nodes if random.random() >= trouble),
            slots_per_node=slots_per_node,
            leaving=frozenset(node for node in nodes if random.random() < trouble),
        ),
        wishes=tuple(wishes),
        present=present,
        locked=frozenset(trial for trial in present if random.random() < trouble),
        min_slots=random.choice((1, 1, 2)),
        shrink_to=shrink_to,
    )


def requests(kind: Kind) -> st.SearchStrategy[PlacementRequest]:
    """By seed: drawing every choice from Hypothesis takes ten times as long."""
    seeds = st.integers(min_value=0, max_value=2**32)
    return st.builds(
        lambda seed, shrink_to: random_request(Random(seed), kind, shrink_to=shrink_to),
        seeds,
        st.sampled_from(ShrinkTo),
    )


def _change(
    random: Random, present: dict[TrialId, Gang], sizes: Sequence[int], *, calm: bool
) -> list[SlotWish]:
    wishes = []
    for trial, gang in present.items():
        match random.choice(("same", "same", "same", "same" if calm else "change", "drop")):
            case "same":
                wishes.append(SlotWish(trial=trial, slots=len(gang)))
            case "change":
                wishes.append(SlotWish(trial=trial, slots=random.choice(sizes)))
    return wishes


def _scatter(
    random: Random, nodes: Sequence[NodeId], slots_per_node: int, sizes: Sequence[int]
) -> dict[TrialId, Gang]:
    """Gangs anywhere on the nodes, colocated but not packed well."""
    free = {node: random.sample(range(slots_per_node), slots_per_node) for node in nodes}
    gangs: dict[TrialId, Gang] = {}
    for trial, size in enumerate(sizes):
        count = -(-size // slots_per_node)
        need = size if count == 1 else slots_per_node
        roomy = [node for node in nodes if len(free[node]) >= need]
        if len(roomy) >= count:
            chosen = random.sample(roomy, count)
            slots = [Slot(node, number) for node in chosen for number in free[node][:need]]
            gangs[TrialId(trial)] = tuple(slots[:size])
            for node in chosen:
                del free[node][:need]
    return gangs
