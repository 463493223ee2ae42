"""From a job to everything that a run needs: price, terms, plan, policy.

The provider's price is written into the job, so that the journal has it.
"""

from __future__ import annotations

import enum
import functools
import itertools
from dataclasses import dataclass, field, replace

from elastune.core.core import Core
from elastune.core.policy import Policy
from elastune.core.state import State
from elastune.core.terms import RunTerms
from elastune.curves.source import UnknownSource
from elastune.errors import InfeasibleError, InvariantError, JobError
from elastune.job.job import Job
from elastune.job.metric import misfit
from elastune.job.policy_choice import PolicyChoice, choose
from elastune.job.sampling import SamplerSection, Tuning
from elastune.job.search import SEARCHES, continuing_misfit, search_for
from elastune.job.search_options import DeclaredSearch, SearchSection, ShaSearch
from elastune.job.trainable import is_code
from elastune.journal.records import MEASURING_POLICY
from elastune.model.billing import Options
from elastune.model.distributions import Distribution
from elastune.model.limits import Limit, Limits, Objective
from elastune.model.metric import Mode, Target
from elastune.planning.problem import Problem, StartState
from elastune.planning.quote import Quote
from elastune.planning.quoting import DEFAULT_SAMPLES, QuoteRequest, make_quote, try_quote
from elastune.policies.outline import Outline
from elastune.policies.profile import ProfilingOptions
from elastune.policies.registry import PolicySetup, make_policy, outline_policy
from elastune.providers.registry import interruption_lookup, price_lookup, provider_entry, queue_lookup
from elastune.setup.data import data_terms, with_rows
from elastune.setup.remembered_boots import remembered_boot
from elastune.space.parsing import parse_space
from elastune.space.space import Space

# The longest name that a job accepts.
_MOST_CHARACTERS = 200
# A plan in the middle of a run is made while nodes wait and cost money: fewer samples, a tenth of the time.
REPLAN_SAMPLES = 512
# The policy that measures what a plan needs.
MEASURING = MEASURING_POLICY
# Configurations drawn before a run, for a quote that knows their speed.
_MOST_DRAWN = 20_000
_REACTION_S = 1.0
_REACTION_SHARE = 0.05
# For a quote, in which the configurations do not matter.
_ANY_SPACE = {"x": {"float": [0.0, 1.0]}}


def with_price(job: Job) -> Job:
    """The job with a price: the one written in it, else the provider's; likewise with the wait for nodes and
    the time that they take to boot."""
    cluster = job.cluster
    if cluster.kinds:
        return job
    if cluster.price_per_hour is not None:
        return _with_latencies(job)
    look_up = price_lookup(cluster.provider)
    if look_up is None:
        raise JobError(
            f"cluster.price_per_hour is missing, and {cluster.provider} knows no prices; expected what one "
            "node costs per hour, such as 12.24"
        )
    price = look_up(_asked_options(job))
    found = {
        "price_per_hour": price.usd_per_hour,
        "price_source": str(price)[:_MOST_CHARACTERS],
        "most_price_per_hour": price.most_usd_per_hour,
    }
    return _with_latencies(job.model_copy(update={"cluster": cluster.model_copy(update=found)}))


def _asked_options(job: Job) -> Options:
    """What a provider is asked with for prices and waits."""
    cluster, slot = job.cluster, job.slot
    if not provider_entry(cluster.provider).takes_slots:
        return cluster.options
    sizes = {
        "slot_cpus": slot.cpus or 1,
        "slot_gpus": slot.gpus or 0,
        "slots_per_node": cluster.slots_per_node,
    }
    return {**cluster.options, **sizes}


def _with_latencies(job: Job) -> Job:
    cluster = job.cluster
    look_up = queue_lookup(cluster.provider)
    found: dict[str, Distribution] = {}
    if look_up is not None and "queue" not in cluster.model_fields_set:
        queue = look_up(_asked_options(job))
        found["queue"] = cluster.queue if queue is None else queue
    if "init" not in cluster.model_fields_set and (boot := remembered_boot(cluster)) is not None:
        found["init"] = boot
    if not found:
        return job
    return job.model_copy(update={"cluster": cluster.model_copy(update=found)})


def interruptions_per_hour(job: Job) -> float:
    """The expected interruptions of one node: as the job says, else the provider."""
    if job.cluster.interruptions_per_hour is not None:
        return job.cluster.interruptions_per_hour
    look_up = interruption_lookup(job.cluster.provider)
    return 0.0 if look_up is None else look_up(job.cluster.options)


class SetupPurpose(enum.Enum):
    """What a setup is for, which decides what of the training must exist."""

    SIMULATE = "simulate"  # the trainable is opened: the metrics come from it
    QUOTE = "quote"  # no code of the user is imported; a job without a trainable suffices
    RUN = "run"  # the trainable is imported where it trains; space and sampler are the job's


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """One job under one policy. The same setup serves any number of seeds."""

    job: Job
    policy: str
    terms: RunTerms
    tuning: Tuning
    quote: Quote | None  # None: the policy decides while it runs and has no plan
    choice: PolicyChoice  # why this policy
    search: SearchSection  # of the policy that runs, which may differ from the one that the job names
    measuring: ProfilingOptions = field(default_factory=ProfilingOptions)
    samples: int = DEFAULT_SAMPLES

    def make_core(self, seed: int) -> Core:
        return Core(self.terms, self.make_policy(seed))

    def make_policy(self, seed: int) -> Policy:
        setup = PolicySetup(
            options=self.measuring if self.policy == MEASURING else self.search,
            search=self.search.model_dump(),
            quote=self.quote,
            planner=self.plan,
            seed=seed,
        )
        return make_policy(self.policy, setup)

    @property
    def needs_a_limit(self) -> bool:
        """Whether only a limit or the sampler ends it."""
        return self.policy in SEARCHES and self.search.needs_a_limit

    def outline(self) -> Outline | None:
        return outline_policy(self.policy, self.search, self.terms)

    def plan(self, problem: Problem, objective: Objective | None) -> Quote | None:
        """Another plan for the rest of a run."""
        samples, seed = min(REPLAN_SAMPLES, self.samples), self.job.seed
        request = QuoteRequest(objective=objective, samples=samples, seed=seed, static=False, bounded=False)
        found = _try_quote_once(problem, replace(request, planner=self.job.planner))
        if found is None and not problem.limits.are_set:
            # The last resort on the nodes left; naive-elastic has no plan if not all trials fit at once.
            found = _try_quote_once(problem, request)
        return found


def prepare(
    job: Job,
    policy: str | None = None,
    *,
    samples: int = DEFAULT_SAMPLES,
    purpose: SetupPurpose = SetupPurpose.SIMULATE,
    planned: Quote | None = None,
) -> RunSetup:
    """Plan the job, if it can be planned and has no plan yet (`planned`), and make the terms of a run.

    Raises `InfeasibleError` if no plan keeps its limits.
    """
    if job.cluster.kinds:
        raise InvariantError("the job has several kinds of nodes; choose one before prepare()")
    job = with_price(with_rows(job, for_real=purpose is SetupPurpose.RUN))
    if purpose is not SetupPurpose.RUN:
        require_end(job)
    choice = choose(job, policy)
    chosen = choice.policy
    if chosen != MEASURING:
        job.require_profile()
    tuning = _with_sampler_of(chosen, job, tuning_of(job, purpose))
    if purpose is SetupPurpose.RUN:
        tuning.make_sampler(job.seed)  # raises before a node is requested
    terms = RunTerms(
        metric=tuning.metric,
        mode=tuning.mode,
        cluster=job.cluster.to_terms(),
        profile=job.profile,
        limits=Limits(deadline_s=job.deadline, budget_usd=job.budget, confidence=job.confidence),
        may_exceed=None if job.may_exceed is None else Limit(job.may_exceed),
        gangs=job.search.gang_limits(),
        retries=job.retries,
        fail_fast=job.fail_fast,
        target=_target(job, tuning),
        data=data_terms(job),
        continuing=job.continuing,
        reserve_s=reserve_of(job) if _is_for_real(job, purpose) else 0.0,
    )
    quote = None
    if chosen == "rubberband":
        request = QuoteRequest(planner=job.planner, samples=samples, seed=job.seed)
        problem = with_known_speeds(_problem(job), tuning, job.seed)
        quote = planned or _quote(problem, terms.may_exceed, request)
        terms = replace(terms, limits=quote.problem.limits)
    # What the trainable knows about a search that the job does not describe.
    search = search_for(chosen, job.search, {"max_iterations": tuning.trainable.longest})
    check_continuing(job, search)
    setup = RunSetup(
        job=job,
        policy=chosen,
        choice=choice,
        terms=terms,
        tuning=tuning,
        quote=quote,
        search=search,
        samples=samples,
    )
    setup.make_policy(job.seed).start(State(terms))  # a policy that cannot keep the limits raises here
    return setup


def require_end(job: Job) -> None:
    """A job need not say how its search ends if its trainable may be a function that is called once."""
    missing = job.missing_end
    if missing is not None:
        raise JobError(f"{'.'.join(missing.path)} {missing}")


def check_continuing(job: Job, search: SearchSection) -> None:
    """The policy that runs may be another than the job names."""
    wrong = continuing_misfit(job.continuing, search, hops=job.data is not None)
    if wrong is not None:
        path, text = wrong
        raise JobError(f"{'.'.join(path)} {text}")


def _is_for_real(job: Job, purpose: SetupPurpose) -> bool:
    """A quote for training code has to equal that of the real run."""
    return purpose is SetupPurpose.RUN or (purpose is SetupPurpose.QUOTE and is_code(job.trainable))


def reserve_of(job: Job) -> float:
    """Time kept back in a real run, where the reaction to a last call takes a moment."""
    return _REACTION_S if job.deadline is None else min(_REACTION_S, _REACTION_SHARE * job.deadline)


def tuning_of(job: Job, purpose: SetupPurpose) -> Tuning:
    if purpose is SetupPurpose.SIMULATE:
        return job.tuning()
    if purpose is SetupPurpose.RUN:
        return _for_a_run(job)
    if job.trainable is None:
        return _anything(job)
    if not is_code(job.trainable):
        return job.tuning()
    if job.space is None or isinstance(job.space, Space):
        return job.unopened_tuning()
    # Importing a function that suggests may import the training, too. Like that function, this never ends.
    some = {"space": parse_space(_ANY_SPACE), "start_configurations": ()}
    return job.model_copy(update=some).unopened_tuning()


def _for_a_run(job: Job) -> Tuning:
    if not is_code(job.trainable):
        missing = job.trainable is None
        raise JobError(
            f"trainable is {'missing' if missing else 'made for simulations and cannot train'}; "
            "expected a class or a generator function, such as path/to/file.py:Digits"
            + ("" if missing else " (`elastune simulate` runs this job in virtual time)")
        )
    return job.unopened_tuning()


def _anything(job: Job) -> Tuning:
    """For a job without a trainable: any metric, any configuration."""
    metric = job.metric or "metric"
    return Tuning(
        trainable=UnknownSource(metric),
        metric=metric,
        mode=job.mode or (Mode.MAX if job.stop_when is None else job.stop_when.mode),
        space=parse_space(_ANY_SPACE),
        sampler=SamplerSection(kind="random"),
    )


def _target(job: Job, tuning: Tuning) -> Target | None:
    """The target, checked against the metric and mode of the trainable, which the job does not know."""
    wrong = None if job.stop_when is None else misfit(job.stop_when, tuning.metric, tuning.mode)
    if wrong:
        raise JobError(f"stop_when {wrong}")
    return job.stop_when


def _with_sampler_of(policy: str, job: Job, tuning: Tuning) -> Tuning:
    """A job that names no sampler gets that of the policy that runs, such as BOHB's model."""
    section = SEARCHES.get(policy)
    if section is None or job.search.sampler is not None or tuning.sampler.kind == "table":
        return tuning
    return replace(tuning, sampler=SamplerSection(kind=section.default_sampler))


# The same problem has the same plan. A replay asks for all plans of its run again, and a status, a report, a
# second policy or a further seed for the plan of the job.
_make_quote_once = functools.lru_cache(maxsize=64)(make_quote)
_try_quote_once = functools.lru_cache(maxsize=1024)(try_quote)


def forget_plans() -> None:
    """For measurements: planning takes as long again as in a new process."""
    _make_quote_once.cache_clear()
    _try_quote_once.cache_clear()


def _quote(problem: Problem, may_exceed: Limit | None, request: QuoteRequest) -> Quote:
    """A plan that keeps the limits; if there is none, one without the limit that may be exceeded."""
    try:
        return _make_quote_once(problem, request)
    except InfeasibleError:
        if may_exceed is None:
            raise
    limits = problem.limits
    loose = limits.without_deadline() if may_exceed is Limit.DEADLINE else limits.without_budget()
    return _make_quote_once(replace(problem, limits=loose), request)


def with_known_speeds(problem: Problem, tuning: Tuning, seed: int) -> Problem:
    """The problem with the speeds of the very configurations that will be drawn, as far as they are known."""
    measured = {name for speed in problem.profile.speeds for name, _ in speed.config}
    counts = [spec.stages[0].trials for spec in problem.specs]
    is_known = isinstance(tuning.space, Space) and measured <= set(tuning.space.entries)
    if not measured or not is_known or sum(counts) > _MOST_DRAWN:
        return problem
    sampler = tuning.make_sampler(seed)
    drawn = [config for trial in range(sum(counts)) if (config := sampler.ask(trial)) is not None]
    if len(drawn) < sum(counts):
        return problem
    guesses = iter(problem.profile.guess_speeds(drawn))
    speeds = [tuple(itertools.islice(guesses, count)) for count in counts]
    return replace(problem, starts=tuple(StartState(speeds=each) for each in speeds))


def _problem(job: Job) -> Problem:
    """As declared; an asynchronous search with a number of trials is planned as synchronous (`sha`)."""
    if isinstance(job.search, DeclaredSearch):
        return job.to_problem()
    keys = ("trials", "min_iterations", "max_iterations", "eta", "min_slots_per_trial", "max_slots_per_trial")
    search = job.search.model_dump()
    if not all(search.get(key) for key in keys[:4]):
        raise JobError(
            "rubberband follows the plan of a declared search, and the job declares none; add one, such as "
            "search: {algorithm: sha, trials: 32, max_iterations: 50}"
        )
    synchronous = ShaSearch(**{key: search[key] for key in keys})
    return job.model_copy(update={"search": synchronous}).to_problem()
