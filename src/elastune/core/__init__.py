"""The brain of a run: events in, commands out. No I/O, no clock, no Ray."""

from elastune.core.commands import AnyCommand, Best, Ending
from elastune.core.core import Core
from elastune.core.events import AnyEvent, Row
from elastune.core.lifecycle import Phase
from elastune.core.policy import Policy, Vetoed
from elastune.core.progress import Progress, ScheduledStage, TrackProgress, Upcoming
from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.core.trials import Trial
from elastune.core.wishes import Advice, Wish, Wishes

__all__ = [
    "Advice",
    "AnyCommand",
    "AnyEvent",
    "Best",
    "Core",
    "Ending",
    "Phase",
    "Policy",
    "Progress",
    "Row",
    "RunTerms",
    "ScheduledStage",
    "State",
    "TrackProgress",
    "Trial",
    "Upcoming",
    "Vetoed",
    "Wish",
    "Wishes",
]
