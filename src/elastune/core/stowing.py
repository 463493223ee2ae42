"""Models that hop and lie at rest on a node: made durable before it goes, or lost with it."""

from __future__ import annotations

from elastune.core.commands import Stow
from elastune.core.events import ModelStowed
from elastune.core.state import State
from elastune.core.trials import Trial
from elastune.core.turn import Turn
from elastune.place import NodeId


def stow(turn: Turn, node: NodeId | None = None) -> None:
    """Models at rest amid an iteration are made durable; those on one node, or all."""
    for number, tour in turn.state.tours.items():
        if tour.at is None or node not in (None, tour.at) or number in turn.state.held:
            continue
        trial = turn.state.trials[number]
        if len(tour.seen) > tour.safe and tour.stowing is None and not trial.phase.is_over:
            tour.stowing = trial.generation
            turn.tell(
                Stow(
                    trial=number,
                    generation=trial.generation,
                    iteration=tour.iteration,
                    visits=len(tour.seen),
                )
            )


def stowed(turn: Turn, event: ModelStowed) -> None:
    tour = turn.state.tours.get(event.trial)
    if tour is None or tour.iteration != event.iteration or tour.stowing != event.generation:
        return
    tour.stowing = None
    if event.error is None and tour.safe < event.visits <= len(tour.seen):
        tour.safe = event.visits
    elif event.error is not None:
        turn.note("stow", f"the model of trial {event.trial} could not be saved: {event.error}")


def model_lost(state: State, trial: Trial) -> None:
    """Whatever was not durable of it is done again."""
    tour = state.tours.get(trial.number)
    if tour is not None:
        tour.at = None
