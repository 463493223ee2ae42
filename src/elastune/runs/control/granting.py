"""Whether a run takes a request: the driver's side of the control channel, before anything is changed."""

from __future__ import annotations

from elastune.core.core import Core
from elastune.core.events import AnyRequest, ConfigAdded
from elastune.runs.control.channel import RequestAnswer
from elastune.runs.control.requests import RefusedRequestError, RunRequest, to_event
from elastune.setup.run_setup import RunSetup
from elastune.space.space import SpaceError


def admit(
    request: RunRequest, core: Core, setup: RunSetup, *, request_id: str, at_s: float
) -> AnyRequest | RequestAnswer:
    """The event by which the core applies the request; or the answer, if it is refused, or was applied by a
    driver that died before it could answer."""
    state = core.state
    if request_id in state.changes.request_ids:
        return RequestAnswer(accepted=True, text="it was applied before the driver was restarted")
    declared = declared_trials(setup)
    try:
        event = to_event(request, state, declared=declared, request_id=request_id, at_s=at_s)
        if isinstance(event, ConfigAdded):
            setup.tuning.check(event.config)
        why = core.refusal(event)
    except (RefusedRequestError, SpaceError) as error:
        why = str(error)
    return event if why is None else RequestAnswer(accepted=False, text=why)


def declared_trials(setup: RunSetup) -> int | None:
    """The number of trials of the job; None: limits end its search."""
    trials = getattr(setup.search, "trials", None)
    return trials if isinstance(trials, int) else None
