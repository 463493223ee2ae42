"""Which tests run in one process, under `pytest -n N --dist loadgroup`.

pytest-xdist 3.8 tells the groups of tests by a suffix of their ids, which pytest 9.2 ignores: silently, every
test is a group of its own (pytest-xdist, issue 1386), and what a module shares is made again and again. So
the processes that run tests write the groups to a file, and the one that distributes them reads it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

_KEY = "elastune groups"
_SHARE = 0.7
"""Of the tests that compute: with those that wait."""
T = TypeVar("T")


class Distributor:
    """A plugin of the process that distributes. Groups go out in the order in which they were collected."""

    def __init__(self, config: pytest.Config) -> None:
        config.option.loadscopereorder = False
        self._folder = tempfile.TemporaryDirectory(prefix="elastune-tests-")

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_KEY] = str(Path(self._folder.name, f"{node.gateway.id}.json"))

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> LoadGroupScheduling:
        return _Groups(config, log)

    def pytest_unconfigure(self) -> None:
        self._folder.cleanup()


class _Groups(LoadGroupScheduling):  # type: ignore[misc]
    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._groups: dict[str, str] = {}

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        self._groups |= json.loads(Path(node.workerinput[_KEY]).read_text(encoding="utf-8"))
        super().add_node_collection(node, collection)

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid) or super()._split_scope(nodeid)


def spread(items: Sequence[T], waits: Callable[[T], bool]) -> list[T]:
    """Each one that waits, and after it some of the others, which use the processor meanwhile.

    Those that wait are through before the others are: one that began last would be waited for alone.
    """
    waiting = [item for item in items if waits(item)]
    others = [item for item in items if not waits(item)]
    each = int(_SHARE * len(others) / max(1, len(waiting)))
    found: list[T] = []
    for number, item in enumerate(waiting):
        found += [item, *others[number * each : (number + 1) * each]]
    return found + others[len(waiting) * each :]


def tell_groups(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """In a process that runs tests: of each test the mark `xdist_group`."""
    file = getattr(config, "workerinput", {}).get(_KEY)
    if file is not None:
        marks = ((item.nodeid, item.get_closest_marker("xdist_group")) for item in items)
        groups = {nodeid: mark.args[0] for nodeid, mark in marks if mark is not None}
        Path(file).write_text(json.dumps(groups), encoding="utf-8")
