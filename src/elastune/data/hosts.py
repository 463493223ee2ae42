"""Which machines have which partition, as the user writes it: the availability map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from elastune.errors import JobError
from elastune.units import plural
from elastune.wording import seen

Hosts: TypeAlias = Mapping[int, Iterable[str]]
"""By the number of the partition; partitions that are left out are everywhere."""


def read_hosts(hosts: Hosts | None, partitions: int, name: str) -> dict[int, tuple[str, ...]]:
    """Checked; every partition that is named has at least one."""
    if hosts is None:
        return {}
    if not isinstance(hosts, Mapping):
        raise JobError(
            f"{name} is {seen(hosts)}; expected hosts by the number of a partition: {{0: ['node-a']}}"
        )
    if hosts and not partitions:
        raise JobError(f"{name} is given, but there are no partitions that it could be about")
    read = {}
    for number, names in hosts.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < partitions:
            raise JobError(
                f"{name} has partition {seen(number)}; there {'is' if partitions == 1 else 'are'} "
                f"{plural(partitions, 'partition')}, expected numbers from 0 to {partitions - 1}"
            )
        listed = (names,) if isinstance(names, str) else tuple(names)
        if not listed or not all(isinstance(each, str) and each for each in listed):
            raise JobError(
                f"{name}: partition {number} has {seen(names)}; expected names or addresses of machines, or "
                "leave the partition out if all machines have it"
            )
        read[number] = tuple(dict.fromkeys(listed))
    return read
