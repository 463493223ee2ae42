"""Requests drawn as text: a line per node, oldest first, a digit per slot for the trial that holds it."""

from __future__ import annotations

from collections.abc import Mapping

from elastune.model.ids import Gang, NodeId, Slot, TrialId
from elastune.placement.request import PlacementNodes, PlacementRequest, SlotWish

FREE = "."


def node_names(count: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(chr(ord("a") + i)) for i in range(count))


def request(
    lines: str,
    wishes: Mapping[int, int],
    *,
    leaving: str = "",
    lost: str = "",
    locked: tuple[int, ...] = (),
    min_slots: int = 1,
) -> PlacementRequest:
    """Nodes are called a, b, c and so on; wishes are trial to slots, best first."""
    rows = lines.split()
    nodes = node_names(len(rows))
    gangs: dict[TrialId, Gang] = {}
    for node, row in zip(nodes, rows, strict=True):
        for number, mark in enumerate(row):
            if mark != FREE:
                gangs[TrialId(int(mark))] = (*gangs.get(TrialId(int(mark)), ()), Slot(node, number))
    return PlacementRequest(
        cluster=PlacementNodes(
            nodes=tuple(node for node in nodes if node not in lost),
            slots_per_node=len(rows[0]),
            leaving=frozenset(NodeId(node) for node in leaving),
        ),
        wishes=tuple(SlotWish(trial=TrialId(trial), slots=slots) for trial, slots in wishes.items()),
        present=gangs,
        locked=frozenset(TrialId(trial) for trial in locked),
        min_slots=min_slots,
    )


def drawn(request: PlacementRequest, gangs: Mapping[TrialId, Gang]) -> str:
    """The picture of these gangs, for the nodes that are up."""
    holders = {slot: str(trial) for trial, gang in gangs.items() for slot in gang}
    numbers = range(request.cluster.slots_per_node)
    rows = ["".join(holders.get(Slot(node, n), FREE) for n in numbers) for node in request.cluster.nodes]
    return " ".join(rows)
