"""The searches a job can name, and which one it means when it names none.

A new algorithm is one more class and its line in `SEARCHES`. An algorithm of another package is known by the
entry point under which it is installed; it checks its own options.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import ErrorDetails

from elastune.errors import JobError
from elastune.job.search_options import (
    AshaSearch,
    BohbSearch,
    DeclaredSearch,
    EGridSearch,
    EHyperbandSearch,
    ForecastSearch,
    GridSearch,
    HyperbandSearch,
    HyperSchedSearch,
    PbtSearch,
    RandomSearch,
    SearchSection,
    SeerSearch,
    ShaSearch,
    StagesSearch,
)
from elastune.job.section import MisfitError, expected_in
from elastune.model.continuing import Continuing
from elastune.wording import either, nearest, seen

PLUGINS = "elastune.policies"


class PluginSearch(SearchSection):
    """An algorithm of another package, with any options."""

    model_config = ConfigDict(extra="allow")

    algorithm: str

    @property
    def options(self) -> Mapping[str, object]:
        """The algorithm's own keys, which it checks."""
        return dict(self.model_extra or {})


SEARCHES: dict[str, type[SearchSection]] = {
    "sha": ShaSearch,
    "hyperband": HyperbandSearch,
    "stages": StagesSearch,
    "asha": AshaSearch,
    "seer": SeerSearch,
    "hypersched": HyperSchedSearch,
    "forecast": ForecastSearch,
    "bohb": BohbSearch,
    "pbt": PbtSearch,
    "random": RandomSearch,
    "grid": GridSearch,
    "e-hyperband": EHyperbandSearch,
    "e-grid": EGridSearch,
}


DECLARED = tuple(name for name, section in SEARCHES.items() if issubclass(section, DeclaredSearch))
"""The algorithms whose stages are known before they run."""
CALLING = tuple(name for name, section in SEARCHES.items() if not (section.by_clock or section.forks))
"""The algorithms for a function with a fidelity."""


AUTO = "auto"
"""As a search: the same as none, chosen by the limits."""
FIRST_AUTO = "auto-1"
"""In the records of the first versions, which left it out: SEER, whose `min_round` was a minute then."""


def undeclared_search(job: Mapping[str, object]) -> str | None:
    """The algorithm for a job that names none: `forecast` for two limits, HyperSched for a deadline on a
    fixed cluster (docs/policies.md has the figures). None: the job must name one."""
    if job.get("deadline") is None:
        return None
    if job.get("budget") is not None:
        return "forecast"
    cluster = job.get("cluster")
    return "hypersched" if isinstance(cluster, Mapping) and cluster.get("nodes") is not None else None


def search_for(algorithm: str, search: SearchSection, known: Mapping[str, object]) -> SearchSection:
    """The section for another algorithm on the same job, with the options that the two share, such as eta.

    `known` fills in what the algorithm needs and the job does not say, such as how long the curves are.
    """
    section = SEARCHES.get(algorithm)
    if section is None or algorithm == search.algorithm:
        return search
    given = {key: getattr(search, key, None) for key in section.model_fields if key != "algorithm"}
    options = {key: value for key, value in given.items() if value is not None}
    for key, value in known.items():
        if key in given and section.model_fields[key].is_required() and value is not None:
            options.setdefault(key, value)
    try:
        return section.model_validate(options)
    except ValidationError as error:
        raise JobError(_misfit(algorithm, section, error.errors(include_url=False)[0])) from None


def _misfit(algorithm: str, section: type[SearchSection], details: ErrorDetails) -> str:
    """Why another algorithm cannot use the options of the job."""
    cause = details.get("ctx", {}).get("error")
    key = ".".join(map(str, details["loc"] or getattr(cause, "path", ())))
    if details["type"] == "missing":
        return f"search.{key} is missing; {algorithm} needs {expected_in(section, key)}"
    if isinstance(cause, MisfitError):
        return f"search.{key} {cause}, and {algorithm} cannot use that"
    return f"search.{key} is {seen(details['input'])}; {algorithm} needs {cause or details['msg']}"


def continuing_misfit(
    continuing: Continuing, search: SearchSection, *, hops: bool
) -> tuple[tuple[str, ...], str] | None:
    """Why a search cannot train trials that go on like this: the key to change, and the error after it."""
    if continuing is Continuing.CHECKPOINT:
        return None
    what = "cannot be saved"
    if continuing is Continuing.CALLING:
        what = "is a function that trains from the beginning at each call (fidelity)"
    if hops:
        text = f"is hopper, but the trainable {what}, and a model that hops is saved; leave it and data out"
        return ("execution",), text
    if search.forks:
        text = f"is {search.algorithm}, which copies models, but the trainable {what}; choose asha"
        return ("search", "algorithm"), text
    return _calling_misfit(search) if continuing is Continuing.CALLING else None


def _calling_misfit(search: SearchSection) -> tuple[tuple[str, ...], str] | None:
    if search.by_clock:
        text = f"is {search.algorithm}, which compares trials by the clock, but a call cannot be interrupted"
        return ("search", "algorithm"), f"{text} (fidelity); choose {either(CALLING)}"
    if "max_iterations" in type(search).model_fields and getattr(search, "max_iterations", 1) is None:
        text = "is missing: with a fidelity it is the value of the last call; expected a number, such as 27"
        return ("search", "max_iterations"), text
    return None


def known_algorithms() -> tuple[str, ...]:
    """Elastune's own first, then those of installed packages."""
    plugins = sorted({plugin.name for plugin in entry_points(group=PLUGINS)} - SEARCHES.keys())
    return (*SEARCHES, *plugins)


def search_class(search: object) -> type[SearchSection] | None:
    """The class for a search as written; None: it names no known algorithm."""
    if isinstance(search, SearchSection):
        return type(search)
    if not isinstance(search, Mapping):
        return ShaSearch
    algorithm = search.get("algorithm")
    if not isinstance(algorithm, str):
        return None
    return SEARCHES.get(algorithm) or (PluginSearch if algorithm in known_algorithms() else None)


def mistakes_of_any(
    search: Mapping[str, object],
) -> dict[str, tuple[type[SearchSection], list[ErrorDetails]]]:
    """For a search that names no known algorithm: by key, what is wrong whichever algorithm is meant, with
    the class that says so."""
    options = {key: value for key, value in search.items() if key != "algorithm"}
    meant = nearest(search.get("algorithm"), SEARCHES)
    wrong: dict[str, tuple[type[SearchSection], list[ErrorDetails]]] = {}
    right: set[str] = set()
    for name in sorted(SEARCHES, key=lambda name: name != meant):
        section, found = SEARCHES[name], dict[str, list[ErrorDetails]]()
        try:
            section.model_validate(options)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                if details["loc"] and details["type"] != "missing":
                    found.setdefault(str(details["loc"][0]), []).append(details)
        right |= options.keys() - found.keys()
        for key, mistakes in found.items():
            if key not in wrong or (key in section.model_fields and key not in wrong[key][0].model_fields):
                wrong[key] = section, mistakes
    return {key: each for key, each in wrong.items() if key not in right}


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
