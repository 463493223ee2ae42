"""What may go wrong in a simulated run, and how to say it on the command line.

`--faults mild`, `--faults harsh`, `--faults lost_per_hour=0.2,refused=0.1,crash=0.02`, or a preset and what
differs from it: `--faults mild,crash=0.5`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
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
    killed: float = 0.0
    """Probability that somebody kills a worker of a gang, likewise; not the fault of the trial."""
    driver_per_hour: float = 0.0
    """Rate at which the driver dies and is resumed from its journal."""
    driver_down_s: float = 60.0
    """How long it is down, on average."""

    def __post_init__(self) -> None:
        for name in ("crash", "killed"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise JobError(f"faults: {name} is {getattr(self, name)}, expected a probability from 0 to 1")
        for name in ("driver_per_hour", "driver_down_s"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise JobError(f"faults: {name} is {getattr(self, name)}, expected 0 or more")


NO_FAULTS = Faults()
_OWN = tuple(each.name for each in dataclasses.fields(Faults) if each.name != "nodes")
_KNOWN = (*_OWN, *(each.name for each in dataclasses.fields(NodeFaults)))
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
    """From a preset's name, `key=value,...`, or a preset and what differs from it: `mild,crash=0.5`."""
    first, *others = (part.strip() for part in text.split(","))
    if first in PRESETS:
        return _changed(PRESETS[first], _read(others))
    return _changed(NO_FAULTS, _read([first, *others]))


def write_faults(faults: Faults) -> str:
    """As `parse_faults` reads it, as short as can be."""
    values = _flat(faults)
    ways: list[str] = []
    for name, preset in PRESETS.items():
        usual = _flat(preset)
        changes = [f"{key}={value}" for key, value in values.items() if value != usual[key]]
        ways.append(",".join(changes if changes and preset == NO_FAULTS else [name, *changes]))
    return min((way for way in ways if "=None" not in way), key=len)


def _flat(faults: Faults) -> dict[str, float | None]:
    return {name: getattr(faults, name) for name in _OWN} | dataclasses.asdict(faults.nodes)


def _read(parts: Iterable[str]) -> dict[str, float]:
    given: dict[str, float] = {}
    for part in parts:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in _KNOWN or not equals:
            near = nearest(key, [*_KNOWN, *PRESETS])
            hint = f" (did you mean {near}?)" if near not in (None, key) else ""
            raise JobError(
                f"--faults has {part!r}{hint}; expected {', '.join(PRESETS)}, or key=value with the keys "
                f"{', '.join(_KNOWN)}; a preset may come first: mild,crash=0.5"
            )
        if key in given:
            raise JobError(f"--faults has {key} twice; expected each key once")
        try:
            given[key] = int(value) if key == "capacity" else float(value)
        except ValueError:
            raise JobError(f"--faults: {key} is {value!r}, expected a number") from None
    return given


def _changed(faults: Faults, given: Mapping[str, float]) -> Faults:
    nodes = {key: value for key, value in given.items() if key not in _OWN}
    own = {key: value for key, value in given.items() if key in _OWN}
    return dataclasses.replace(faults, nodes=dataclasses.replace(faults.nodes, **nodes), **own)  # type: ignore[arg-type]
