"""The last word about a run's machines: that none is left, or what is and what to do about it."""

from __future__ import annotations

from rich.text import Text

from elastune.providers.rays import Farewell
from elastune.units import plural
from elastune.wording import several


def tell_farewell(farewell: Farewell) -> Text:
    """Quiet if all is well."""
    return Text(farewell_words(farewell), "bold red" if farewell.left else "")


def farewell_words(farewell: Farewell) -> str:
    if not farewell.left:
        return f"nothing of it is alive ({farewell.how})"
    left = f"{plural(len(farewell.left), 'node')} may be alive and cost money"
    return f"{left}: {several(farewell.left)} ({farewell.how}); `elastune nodes --sweep` ends what is left"
