"""The searches a job can name, and which one it means when it names none.

A new algorithm is one more class and its line in `SEARCHES`. An algorithm of somebody else is known by the
entry point under which it is installed; its options are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import ConfigDict, Discriminator, Field, Tag

from elastune.job.declared_search import DeclaredSearch, HyperbandSearch, ShaSearch
from elastune.job.online_search import (
    AshaSearch,
    BohbSearch,
    EGridSearch,
    EHyperbandSearch,
    GridSearch,
    HyperSchedSearch,
    PbtSearch,
    RandomSearch,
    SeerSearch,
)
from elastune.job.search_section import SearchSection

__all__ = [
    "SEARCHES",
    "AnySearch",
    "DeclaredSearch",
    "PluginSearch",
    "SearchSection",
    "known_algorithms",
    "search_class",
    "search_for",
    "undeclared_search",
]

PLUGINS = "elastune.policies"


class PluginSearch(SearchSection):
    """An algorithm that another package brings, with whatever options it has."""

    model_config = ConfigDict(extra="allow")

    algorithm: str

    @property
    def options(self) -> Mapping[str, object]:
        """The keys that are the algorithm's own, for it to check."""
        return dict(self.model_extra or {})


SEARCHES: dict[str, type[SearchSection]] = {
    "sha": ShaSearch,
    "hyperband": HyperbandSearch,
    "asha": AshaSearch,
    "seer": SeerSearch,
    "hypersched": HyperSchedSearch,
    "bohb": BohbSearch,
    "pbt": PbtSearch,
    "random": RandomSearch,
    "grid": GridSearch,
    "e-hyperband": EHyperbandSearch,
    "e-grid": EGridSearch,
}


def undeclared_search(job: Mapping[str, object]) -> str | None:
    """The algorithm for a job that names none: SEER for two limits, HyperSched by a deadline on a fixed
    cluster (DESIGN section 6). None: the job has to say."""
    cluster = job.get("cluster")
    fixed = isinstance(cluster, Mapping) and cluster.get("nodes") is not None
    if job.get("deadline") is None:
        return None
    if job.get("budget") is not None:
        return "seer"
    return "hypersched" if fixed else None


def search_for(algorithm: str, search: SearchSection, known: Mapping[str, object]) -> Mapping[str, object]:
    """The options with which another algorithm runs on the same job: those that the two share, so that
    both have the same eta and the same iterations.

    `known` fills in what the algorithm needs and the job does not say, such as how long the curves are.
    """
    section = SEARCHES.get(algorithm)
    if section is None or algorithm == search.algorithm:
        return search.model_dump()
    given = {key: value for key, value in search.model_dump().items() if value is not None}
    options: dict[str, object] = {"algorithm": algorithm}
    for key, field in section.model_fields.items():
        if key != "algorithm":
            fallback = known.get(key) if field.is_required() else field.default
            options[key] = given.get(key, fallback)
    return options


def known_algorithms() -> tuple[str, ...]:
    """Ours first, then those of installed packages."""
    plugins = sorted({plugin.name for plugin in entry_points(group=PLUGINS)} - SEARCHES.keys())
    return (*SEARCHES, *plugins)


def search_class(search: object) -> type[SearchSection] | None:
    """The class for what was written; None if it names no algorithm that is known."""
    if isinstance(search, SearchSection):
        return type(search)
    if not isinstance(search, Mapping):
        return ShaSearch
    algorithm = search.get("algorithm")
    if not isinstance(algorithm, str):
        return None
    return SEARCHES.get(algorithm) or (PluginSearch if algorithm in known_algorithms() else None)


def _tag(search: object) -> str | None:
    found = search_class(search)
    return found.__name__ if found else None


if TYPE_CHECKING:
    AnySearch = SearchSection
else:
    AnySearch = Annotated[
        Union[tuple(Annotated[cls, Tag(cls.__name__)] for cls in (*SEARCHES.values(), PluginSearch))],  # noqa: UP007
        Discriminator(_tag),
        Field(
            description="what to search, and how; it can be left out with a deadline and a budget, or with a "
            "deadline and cluster.nodes"
        ),
    ]
