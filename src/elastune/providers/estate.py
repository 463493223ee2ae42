"""What is alive at a provider, across all runs, and how to end it: for people who fear a bill.

A run knows its own nodes by the four verbs. An estate knows no run: it lists whatever of Elastune there is,
also what a driver left behind that is long gone. Who is an orphan is decided elsewhere.

A package offers one as an entry point of the group `elastune.estates`: a function from `Outlook` to `Estate`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from elastune.errors import JobError

GROUP = "elastune.estates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A node that is alive. Times are seconds since 1970; None: nobody has said."""

    provider: str
    node: str
    run: str | None
    job: str | None = None
    owner: str | None = None
    kind: str
    """Of machine, and on which market it was bought."""
    state: str
    since: float
    usd_per_hour: float | None = None
    """None: nobody sends a bill."""
    expires: float | None = None
    """The end of its lease, which a living driver puts off."""
    is_kept: bool | None = None
    """Whether its driver lives, where the provider can see that without a lease; None: it cannot."""


class UnseenError(Exception):
    """It was not possible to look. `is_absent`: this provider is simply not set up here."""

    def __init__(self, reason: str, *, is_absent: bool = False) -> None:
        super().__init__(reason)
        self.is_absent = is_absent


class Estate(Protocol):
    """Both raise `UnseenError`."""

    def sightings(self) -> tuple[Sighting, ...]:
        """All that is alive, of every run and owner that this account can see."""
        ...

    def end(self, nodes: Collection[str]) -> None:
        """Whatever they are doing; those that are gone are no error. Some may take a while to be gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Where to look."""

    region: str | None = None
    """Of a cloud; None: as this machine is set up."""


EstateFactory = Callable[[Outlook], Estate]


def _local(_: Outlook) -> Estate:
    from elastune.providers.local.estate import LocalEstate  # noqa: PLC0415

    return LocalEstate()


def _ec2(outlook: Outlook) -> Estate:
    from elastune.providers.ec2.estate import open_estate  # noqa: PLC0415

    return open_estate(outlook.region)


_BUILT_IN: Mapping[str, EstateFactory] = {"ec2": _ec2, "local": _local}


def known_estates() -> tuple[str, ...]:
    """All names, in alphabetical order. Nothing is imported."""
    return tuple(sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))}))


def load_estate(name: str) -> EstateFactory:
    """An installed one is imported only here; a name that is offered twice is refused."""
    installed = tuple(entry_points(group=GROUP, name=name))
    if len(installed) + (name in _BUILT_IN) > 1:
        raise JobError(f"the nodes of {name!r} are offered more than once: remove one of the packages")
    if installed:
        return _imported(installed[0])
    if name not in _BUILT_IN:
        raise JobError(
            f"nobody knows how to list the nodes of {name!r}, expected {', '.join(known_estates())}"
        )
    return _BUILT_IN[name]


def _imported(entry: EntryPoint) -> EstateFactory:
    try:
        factory = entry.load()
    except (ImportError, AttributeError) as error:
        raise JobError(f"the estate {entry.name!r} ({entry.value}) cannot be imported: {error}") from error
    if not callable(factory):
        raise JobError(f"the estate {entry.name!r} ({entry.value}) is no function from Outlook to Estate")
    return factory  # type: ignore[no-any-return]
