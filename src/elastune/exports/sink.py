"""Where the news of a run goes."""

from __future__ import annotations

from typing import Protocol

from elastune.exports.lines import News


class Sink(Protocol):
    """What it has written before, of the same run, is replaced or gone on with, never repeated."""

    @property
    def where(self) -> str:
        """For people: the folder or address."""

    def update(self, news: News) -> None:
        """Write what is new. May take long: it is never called by the loop of a run."""

    def close(self) -> None:
        """Nothing more will come."""
