"""What a quote warns of. It loads nothing that only a run needs: `elastune plan` is to answer at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from elastune.job.job import Job
from elastune.job.machine import describe_crowding
from elastune.job.policy_choice import ENOUGH_TRIALS
from elastune.job.search_options import DeclaredSearch, SeerSearch
from elastune.planning.quote import Quote
from elastune.policies.seer import SeerOptions
from elastune.providers.registry import is_elsewhere
from elastune.wording import either, format_duration, format_usd, plural

if TYPE_CHECKING:
    from elastune.runs.quotes.policy_quote import PolicyQuote

_LOCAL = "local"
# Policies that train every trial they start to the end, or as long as the others.
_TO_THE_END = ("random", "grid", "pbt", "e-grid")


def quote_warnings(job: Job, quote: Quote | PolicyQuote, *, address: str | None = None) -> Iterator[str]:
    """`address`: the Ray cluster on which the job would run."""
    if address is None and job.cluster.provider == _LOCAL and job.slot.cpus is not None:
        crowding = describe_crowding(quote.peak_nodes * job.cluster.slots_per_node, job.slot.cpus)
        if crowding is not None:
            yield crowding
    if address is None and is_elsewhere(job.cluster.provider) and "init" not in job.cluster.model_fields_set:
        yield (
            "how long nodes boot is not known and counted as 0; expected cluster.init, such as 30s. Runs "
            "measure it for later quotes"
        )
    if _decides_while_it_runs(quote) and round(quote.trials) < _wanted(job):
        yield _describe_few(job, quote)
    if _decides_while_it_runs(quote) and _learns_nothing(job, quote):
        yield (
            "the sampler learns nothing: seer draws all trials at once, because the limits leave no time for "
            "several waves; expected a longer deadline, or search: asha"
        )


def _decides_while_it_runs(quote: Quote | PolicyQuote) -> TypeGuard[PolicyQuote]:
    return not isinstance(quote, Quote)


def _learns_nothing(job: Job, quote: PolicyQuote) -> bool:
    """Whether the sampler learns, and all trials are drawn before any has trained."""
    search, outline = job.search, quote.outline
    return isinstance(search, SeerSearch) and search.learns and outline is not None and outline.draws == 1


def _wanted(job: Job) -> int:
    """Trials that a search should have; not more than the job asks for."""
    asked = getattr(job.search, "trials", None)
    if isinstance(job.search, DeclaredSearch) or (asked is not None and not job.names_search_only):
        return 0
    return ENOUGH_TRIALS


def _describe_few(job: Job, quote: PolicyQuote) -> str:
    """Which change would help, and by how much."""
    trials = max(1, round(quote.trials))
    times = math.ceil(ENOUGH_TRIALS / trials)
    cluster = job.cluster
    ways: list[str] = []
    if isinstance(job.search, SeerOptions) and job.search.min_round is not None:
        ways.append("no search.min_round (a round then lasts about as long as an iteration)")
    if quote.choice.policy in _TO_THE_END:
        ways.append("search: asha, which stops bad trials early")
    elif quote.choice.policy == "seer":
        ways.append("search: hypersched, whose trials take turns on the slots")
    if job.deadline is not None:
        ways.append(f"deadline: {format_duration(job.deadline * times)}")
    if job.budget is not None:
        ways.append(f"budget: {format_usd(job.budget * times)}")
    if job.budget is None and cluster.price_per_hour:
        key = "nodes" if cluster.nodes is not None else "max_nodes"
        ways.append(f"cluster.{key}: {cluster.most_nodes * times}")
    found = f"about {plural(trials, 'trial')} will be tried, too few for a search"
    return f"{found}; more would be with {either(ways)}" if ways else found
