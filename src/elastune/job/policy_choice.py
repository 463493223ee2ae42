"""Which policy runs, and why (DESIGN section 6: the first rule that matches)."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.job.job import Job
from elastune.job.search_options import DeclaredSearch
from elastune.model.quantities import PlannerName

NAMES = {
    "rubberband": "RubberBand",
    "seer": "SEER",
    "hypersched": "HyperSched",
    "forecast": "forecast",
    "asha": "ASHA",
    "hyperband": "Hyperband",
    "bohb": "BOHB",
    "pbt": "PBT",
    "random": "random search",
    "grid": "grid search",
    "e-hyperband": "elastic Hyperband",
    "e-grid": "elastic grid search",
}


_SIZES = ("trials", "max_iterations")
ENOUGH_TRIALS = 10
"""A search of fewer is hardly one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    policy: str
    because: str

    def __str__(self) -> str:
        return f"{NAMES.get(self.policy, self.policy)}, because {self.because}"


def choose(job: Job, policy: str | None = None) -> PolicyChoice:
    """`policy` was asked for outside the job."""
    if policy is not None:
        return PolicyChoice(policy=policy, because="it was asked for")
    name = job.search.algorithm
    if not job.declares_search:
        return _choose_undeclared(job)
    if not isinstance(job.search, DeclaredSearch):
        where = "search" if job.names_search_only else "search.algorithm"
        return PolicyChoice(policy=name, because=f"{where} names it{_chosen_options(job)}")
    if name == "hyperband" and _is_one_free_node(job):
        options = _chosen_options(job)
        because = f"hyperband was declared{options}, and one node trains one bracket after the other"
        return PolicyChoice(policy=name, because=because)
    declared = f"{name} {'were' if name == 'stages' else 'was'} declared{_chosen_options(job)}"
    if job.deadline is not None and job.cluster.price_per_hour == 0.0:
        because = f"{declared} with a deadline, on machines that cost nothing: least time"
    elif job.deadline is not None:
        also = " within the budget" if job.budget is not None else ""
        because = f"{declared} with a deadline: least cost by then{also}"
    elif job.budget is not None:
        because = f"{declared} with a budget: least time for it"
    else:
        because = f"{declared}; without a deadline or a budget nothing is promised"
    planner = "" if job.planner is PlannerName.EXACT else f"; planned by {job.planner}"
    return PolicyChoice(policy="rubberband", because=f"{because}{planner}")


def _choose_undeclared(job: Job) -> PolicyChoice:
    """By the limits."""
    other = "fixed cluster" if job.budget is None else "budget"
    because = f"a deadline and a {other} were given and no search was declared"
    return PolicyChoice(policy=job.search.algorithm, because=because)


def _is_one_free_node(job: Job) -> bool:
    """A plan of Hyperband has nodes of their own for each bracket, so as to pay for no more than needed."""
    return job.cluster.most_nodes == 1 and job.cluster.price_per_hour == 0.0 and job.data is None


def _chosen_options(job: Job) -> str:
    """The options of a search that is only a name, which Elastune has chosen."""
    if not job.names_search_only:
        return ""
    options = ", ".join(
        f"{key}: {value:,}" for key, value in job.search.model_dump().items() if key in _SIZES and value
    )
    known = " and the speed" if job.is_measured else ""
    return f" ({options}, from the limits{known})" if options else ""


def choose_policy(job: Job) -> str:
    return choose(job).policy
