"""A job with a choice between kinds of nodes, prepared with the best of them."""

from __future__ import annotations

from collections.abc import Callable

from elastune.job import Job
from elastune.runs.interruptions import with_risk
from elastune.runs.kinds import Chosen, choose_kind
from elastune.runs.offer import quote_setup
from elastune.runs.setup import RunSetup


def settle_kind(job: Job, prepare: Callable[[Job], RunSetup]) -> Chosen[RunSetup]:
    return choose_kind(job, prepare, lambda setup: with_risk(quote_setup(setup), setup))
