"""Whether a run is expected to leave its plan. It loads nothing that only a run needs."""

from __future__ import annotations

from elastune.planning.quote import Quote
from elastune.policies.rubberband import ALIKE

# One simulation of more trials takes as long as planning them.
MOST_TRIALS = 256


def is_simulated(quote: Quote) -> bool:
    """Whether configurations differ so much in speed that a run plans again, and there are not too many."""
    speeds = quote.speeds
    if speeds is None or speeds.trials > MOST_TRIALS:
        return False
    return speeds.known > 0 or speeds.spread > ALIKE / 2.0
