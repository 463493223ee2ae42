"""Where gangs go: from "so many slots for this trial" to "these slots of these nodes"."""

from elastune.place.controller import pack, place
from elastune.place.placement import Change, Packing, Placement, Shortfall
from elastune.place.request import Cluster, Gang, NodeId, Request, ShrinkTo, Slot, TrialId, Wish

__all__ = [
    "Change",
    "Cluster",
    "Gang",
    "NodeId",
    "Packing",
    "Placement",
    "Request",
    "Shortfall",
    "ShrinkTo",
    "Slot",
    "TrialId",
    "Wish",
    "pack",
    "place",
]
