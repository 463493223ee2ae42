"""From a job to everything that a run needs: terms, plan, policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from elastune.core import Core, Policy, RunTerms
from elastune.errors import InfeasibleError
from elastune.job import Job
from elastune.job.search import DeclaredSearch, ShaSearch
from elastune.job.tuning import Tuning
from elastune.planning import (
    DEFAULT_SAMPLES,
    Limit,
    Limits,
    Objective,
    Problem,
    Quote,
    Request,
    make_quote,
    try_quote,
)
from elastune.policies import PolicySetup, make_policy

# A plan in the middle of a run is made while nodes wait and cost money: fewer samples, a tenth of the time.
REPLAN_SAMPLES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """One job under one policy. The same setup serves any number of seeds."""

    job: Job
    policy: str
    terms: RunTerms
    tuning: Tuning
    quote: Quote | None
    """None: the policy decides while it runs and has no plan."""
    search: Mapping[str, object]
    samples: int = DEFAULT_SAMPLES
    _plans: dict[tuple[Problem, Objective | None], Quote | None] = field(default_factory=dict)

    def make_core(self, seed: int) -> Core:
        return Core(self.terms, self.make_policy(seed))

    def make_policy(self, seed: int) -> Policy:
        setup = PolicySetup(search=self.search, quote=self.quote, planner=self.plan, seed=seed)
        return make_policy(self.policy, setup)

    def plan(self, problem: Problem, objective: Objective | None) -> Quote | None:
        """Another plan for what is left. Replays ask for the same ones again, so they are kept."""
        key = (problem, objective)
        if key not in self._plans:
            request = Request(
                objective=objective,
                samples=min(REPLAN_SAMPLES, self.samples),
                seed=self.job.seed,
                static=False,
            )
            self._plans[key] = try_quote(problem, request)
        return self._plans[key]


def prepare(job: Job, policy: str | None = None, *, samples: int = DEFAULT_SAMPLES) -> RunSetup:
    """Plan the job where it can be planned. Raises `InfeasibleError` if no plan keeps its limits."""
    tuning = job.tuning()
    chosen = policy or choose_policy(job)
    cluster = job.cluster.to_terms()
    terms = RunTerms(
        metric=tuning.metric,
        mode=tuning.mode,
        cluster=cluster,
        profile=job.profile,
        limits=Limits(deadline_s=job.deadline, budget_usd=job.budget, confidence=job.confidence),
        yields=None if job.yields is None else Limit(job.yields),
        gangs=job.search.gang_limits(),
        retries=job.retries,
    )
    quote = None
    if chosen == "rubberband":
        quote = _quote(_problem(job), terms.yields, Request(samples=samples, seed=job.seed))
        terms = replace(terms, limits=quote.problem.limits)
    search = job.search.model_dump()
    return RunSetup(
        job=job, policy=chosen, terms=terms, tuning=tuning, quote=quote, search=search, samples=samples
    )


def _quote(problem: Problem, yields: Limit | None, request: Request) -> Quote:
    """A plan that keeps the limits; where none does, one without the limit that yields."""
    try:
        return make_quote(problem, request)
    except InfeasibleError:
        if yields is None:
            raise
    limits = problem.limits
    loose = limits.without_deadline() if yields is Limit.DEADLINE else limits.without_budget()
    return make_quote(replace(problem, limits=loose), request)


def choose_policy(job: Job) -> str:
    """A declared search is planned and follows its plan; any other algorithm is a policy by its own name."""
    return "rubberband" if isinstance(job.search, DeclaredSearch) else job.search.algorithm


def _problem(job: Job) -> Problem:
    """As declared; an asynchronous search with a number of trials is planned as its synchronous sister."""
    if isinstance(job.search, DeclaredSearch):
        return job.to_problem()
    keys = ("trials", "min_iterations", "max_iterations", "eta", "min_slots_per_trial", "max_slots_per_trial")
    search = job.search.model_dump()
    if not all(search.get(key) for key in keys[:4]):
        return job.to_problem()  # which says why not
    sister = ShaSearch(**{key: search[key] for key in keys})
    return job.model_copy(update={"search": sister}).to_problem()
