"""Pricing a job before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from elastune.api.arguments import AnyJob, as_job, whole
from elastune.errors import JobError
from elastune.job.job import Job
from elastune.job.policy_choice import choose
from elastune.job.search import DECLARED
from elastune.model.limits import Objective
from elastune.planning.planners.registry import DEFAULT_PLANNER
from elastune.planning.quote import Quote
from elastune.planning.quoting import DEFAULT_SAMPLES, QuoteRequest, make_quote
from elastune.runs.quotes.replanning import is_simulated
from elastune.setup.black_box import require_one_iteration
from elastune.views.notebook import show_as_html, terminal_html
from elastune.wording import either

if TYPE_CHECKING:
    from elastune.runs.quotes.policy_quote import PolicyQuote


AnyQuote = TypeVar("AnyQuote", "Quote", "PolicyQuote")
MOST_SAMPLES = 1_000_000
MOST_SEED = 2**63 - 1
_FOR_PLANS: dict[str, tuple[object, ...]] = {
    "planner": (None, DEFAULT_PLANNER),
    "objective": (None,),
    "frontier": (None, False),
    "compare": (None, False),
}
"""Options that only plans have, with the values that mean "not used"."""


def plan(
    job: AnyJob,
    *,
    planner: str | None = None,
    objective: Objective | str | None = None,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    frontier: bool = False,
    compare: bool = False,
) -> Quote:
    """The best plan for a declared search: what it costs, when it ends, stage by stage.

    `job` is a `Job`, a mapping with its keys, or the path of a YAML file. `objective` is `cost` (least cost
    by the deadline) or `time` (least time for the budget); without it, cost unless the job has only a budget.
    `planner` is one of `PlannerName`, such as `exact` or `static`; without it, the job's own.
    Raises `JobError` if the job is wrong or has no profile, and `InfeasibleError` if no plan keeps its
    limits. Nothing is measured here: `measured(job)` in `elastune.api.profiling` returns the job with a
    profile, kept or measured now. `quote` also prices searches that decide while they run.
    """
    given = as_job(job).with_planner(planner)
    require_one_iteration(given)
    request = QuoteRequest(
        planner=given.planner,
        objective=_objective(objective),
        samples=whole("samples", samples, 1, MOST_SAMPLES),
        seed=whole("seed", seed, 0, MOST_SEED),
        frontier=frontier,
        compare=compare,
    )
    return _shown(_best_kind(given, lambda each: _planned(each, request)))


def _shown(quote: AnyQuote) -> AnyQuote:
    """A notebook shows it as a terminal does."""

    def render(each: AnyQuote) -> str:
        from elastune.views.terminal.plan import render_any_quote  # noqa: PLC0415  loads all that a run needs

        return terminal_html(render_any_quote(each))

    show_as_html(type(quote), render)
    return quote


def _planned(given: Job, request: QuoteRequest) -> Quote:
    stop_when = None if given.stop_when is None else str(given.stop_when)
    if given.data is not None:
        from elastune.setup.data import with_rows  # noqa: PLC0415  reads files

        given = with_rows(given, for_real=False)
    is_settled = given.cluster.is_settled
    if not is_settled:
        from elastune.setup.run_setup import with_price  # noqa: PLC0415

        given = with_price(given)
    problem = given.to_problem()
    if given.profile.speeds and given.trainable is not None:
        from elastune.setup.run_setup import SetupPurpose, tuning_of, with_known_speeds  # noqa: PLC0415

        problem = with_known_speeds(problem, tuning_of(given, SetupPurpose.QUOTE), given.seed)
    planned = replace(make_quote(problem, request), why=str(choose(given)), stop_when=stop_when)
    if is_settled and not is_simulated(planned):
        return planned
    from elastune.runs.quotes.quoting import with_simulations  # noqa: PLC0415  loads all that a run needs
    from elastune.setup.run_setup import SetupPurpose, prepare  # noqa: PLC0415

    return with_simulations(planned, prepare(given, purpose=SetupPurpose.QUOTE, planned=planned))


def _best_kind(given: Job, quote_kind: Callable[[Job], AnyQuote]) -> AnyQuote:
    """With the kind of node that suits the job best, where it names several."""
    if not given.cluster.kinds:
        return quote_kind(given)
    from elastune.runs.prepared_run import choose_kind  # noqa: PLC0415  loads all that a run needs

    chosen = choose_kind(given, quote_kind, lambda quote: quote)
    return replace(chosen.prepared, kinds=chosen.kinds)


def quote(job: AnyJob, **options: Any) -> Quote | PolicyQuote:
    """What any job will take, whichever policy runs it; `elastune plan` prints this.

    A declared search is planned, with the options of `plan`. Any other policy is simulated; for one that
    works in rounds, such as SEER, the quote lists the rounds.
    """
    given = as_job(job)
    require_one_iteration(given)
    if choose(given).policy == "rubberband":
        return plan(given, **options)
    asked = [name for name in _FOR_PLANS if options.get(name) not in _FOR_PLANS[name]]
    if asked:
        name = given.search.algorithm
        raise JobError(
            f"{either(asked)} is for declared searches ({either(DECLARED)}); {name} decides while it runs "
            "and has no plans to choose from"
        )
    from elastune.runs.quotes.quoting import quote_policy  # noqa: PLC0415  loads all that a run needs

    return _shown(_best_kind(given, quote_policy))


def _objective(objective: Objective | str | None) -> Objective | None:
    if objective is None or isinstance(objective, Objective):
        return objective
    allowed = [each.value for each in Objective]
    if objective not in allowed:
        raise JobError(f"objective is {objective!r}; expected one of: {', '.join(allowed)}")
    return Objective(objective)
