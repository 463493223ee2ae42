"""What may go wrong in a simulated run, and how to say it on the command line.

`--faults mild`, `--faults harsh`, or `--faults lost_per_hour=0.2,refused=0.1,crash=0.02`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

from elastune.errors import JobError
from elastune.providers import NodeFaults
from elastune.wording import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Beside the nodes, the user's code may crash and the driver may go down."""

    nodes: NodeFaults = field(default_factory=NodeFaults)
    crash: float = 0.0
    """Probability that a gang's training crashes once, at some iteration of its first lease."""
    driver_per_hour: float = 0.0
    """Rate at which the driver dies and is resumed from its journal."""
    driver_down_s: float = 60.0
    """How long it is down, on average."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.crash <= 1.0:
            raise JobError(f"faults: crash is {self.crash}, expected a probability from 0 to 1")
        for name in ("driver_per_hour", "driver_down_s"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise JobError(f"faults: {name} is {getattr(self, name)}, expected 0 or more")


NO_FAULTS = Faults()
PRESETS = {
    "none": NO_FAULTS,
    "mild": Faults(
        nodes=NodeFaults(lost_per_hour=0.02, noticed_per_hour=0.05, refused=0.02, straggler=0.02), crash=0.005
    ),
    "harsh": Faults(
        nodes=NodeFaults(
            lost_per_hour=0.3,
            noticed_per_hour=0.3,
            refused=0.2,
            boot_failure=0.03,
            straggler=0.1,
            straggler_factor=3.0,
        ),
        crash=0.05,
        driver_per_hour=0.2,
    ),
}


def parse_faults(text: str) -> Faults:
    """From a preset's name or `key=value,...`."""
    if text in PRESETS:
        return PRESETS[text]
    own = {f.name: f for f in dataclasses.fields(Faults) if f.name != "nodes"}
    known = [*own, *(f.name for f in dataclasses.fields(NodeFaults))]
    given: dict[str, float] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in known or not equals:
            near = nearest(key, [*known, *PRESETS])
            hint = f" (did you mean {near}?)" if near else ""
            raise JobError(
                f"--faults has {part.strip()!r}{hint}; expected {', '.join(PRESETS)}, or key=value with "
                f"the keys {', '.join(known)}"
            )
        if key in given:
            raise JobError(f"--faults has {key} twice; expected each key once")
        try:
            given[key] = int(value) if key == "capacity" else float(value)
        except ValueError:
            raise JobError(f"--faults: {key} is {value!r}, expected a number") from None
    nodes = NodeFaults(**{key: value for key, value in given.items() if key not in own})  # type: ignore[arg-type]
    return Faults(nodes=nodes, **{key: value for key, value in given.items() if key in own})
