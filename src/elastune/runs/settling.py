"""A job with a choice between kinds of nodes, prepared with the best of them."""

from __future__ import annotations

from elastune.job import Job
from elastune.runs.interruptions import with_risk
from elastune.runs.kinds import choose_kind
from elastune.runs.offer import quote_setup
from elastune.runs.setup import RunSetup, prepare


def prepare_best_kind(job: Job, policy: str | None = None) -> RunSetup:
    """For a simulation. A job without a choice of nodes is prepared as it is."""
    if not job.cluster.kinds:
        return prepare(job, policy)
    chosen = choose_kind(
        job, lambda each: prepare(each, policy), lambda setup: with_risk(quote_setup(setup), setup)
    )
    return chosen.offer
