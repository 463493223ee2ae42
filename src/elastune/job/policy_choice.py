"""Which policy runs, and why (DESIGN section 6: the first rule that matches)."""

from __future__ import annotations

from dataclasses import dataclass

from elastune.job.job import Job
from elastune.job.search_options import DeclaredSearch

NAMES = {
    "rubberband": "RubberBand",
    "seer": "SEER",
    "hypersched": "HyperSched",
    "asha": "ASHA",
    "hyperband": "Hyperband",
    "bohb": "BOHB",
    "pbt": "PBT",
    "random": "random search",
    "grid": "grid search",
    "e-hyperband": "elastic Hyperband",
    "e-grid": "elastic grid search",
}


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
    if not isinstance(job.search, DeclaredSearch):
        if job.declares_search:
            return PolicyChoice(policy=name, because="search.algorithm names it")
        other = "budget" if name == "seer" else "fixed cluster"
        because = f"a deadline and a {other} were given and no search was declared"
        return PolicyChoice(policy=name, because=because)
    declared = f"{name} was declared"
    if job.deadline is not None:
        also = " within the budget" if job.budget is not None else ""
        because = f"{declared} with a deadline: least cost by then{also}"
    elif job.budget is not None:
        because = f"{declared} with a budget: least time for it"
    else:
        because = f"{declared}; without a deadline or a budget nothing is promised"
    return PolicyChoice(policy="rubberband", because=because)


def choose_policy(job: Job) -> str:
    return choose(job).policy
