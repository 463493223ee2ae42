"""The core: events in, commands out. It does no I/O, reads no clock and does not import Ray."""

from elastune.core.commands import Ending
from elastune.core.policy import Policy
from elastune.core.state import State
from elastune.core.wishes import Advice, Wish, Wishes

__all__ = ["Advice", "Ending", "Policy", "State", "Wish", "Wishes"]
