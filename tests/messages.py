"""Events and commands in a few words, so that a whole run can be compared with a literal log."""

from __future__ import annotations

from collections.abc import Iterable

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.core.commands import AnyCommand
from elastune.core.events import AnyEvent
from elastune.model.ids import Gang

Log = list[tuple[float, str]]


def say(message: AnyEvent | AnyCommand) -> str:
    return _say_event(message) if isinstance(message, AnyEvent) else _say_command(message)


def log_of(messages: Iterable[tuple[float, AnyEvent | AnyCommand]]) -> Log:
    return [(round(at_s, 6), say(message)) for at_s, message in messages]


def _say_event(event: AnyEvent) -> str:  # noqa: C901, PLR0911, PLR0912  one line per event
    match event:
        case ev.LeaseEnded():
            return f"trial {event.trial} waits, {event.reason.value}{_rows(event)}"
        case ev.TrialCrashed():
            return f"trial {event.trial} crashes{_rows(event)}"
        case ev.GangLost():
            return f"trial {event.trial} loses its gang{_rows(event)}"
        case ev.Progressed():
            return f"trial {event.trial} reports{_rows(event)}"
        case ev.GangStarted():
            return f"trial {event.trial} trains"
        case ev.TrialPaused():
            return f"trial {event.trial} is saved{' and stays' if event.stays else ''}"
        case ev.ModelStowed():
            return f"the model of trial {event.trial} is saved after {event.visits} visits"
        case ev.TrialsSampled():
            more = ", no more" if event.exhausted else ""
            return f"drawn {[int(trial) for trial, _ in event.trials]}{more}"
        case ev.NodesGranted():
            return f"granted {' '.join(event.nodes)}"
        case ev.NodesRefused():
            return f"refused {event.count}"
        case ev.NodesReady():
            return f"ready {' '.join(event.nodes)}"
        case ev.NodeNoticed():
            return f"noticed {event.node} until {event.until_s:g}"
        case ev.NodeLost():
            return f"lost {event.node}"
        case ev.NodeFound():
            return f"found {event.node}"
        case ev.TimerFired():
            return f"rings {event.timer}"
        case ev.BarrierPassed():
            return f"passed stage {event.stage} of pool {event.pool}"
        case ev.RunStarted():
            return "begins"
        case ev.StopAsked():
            return f"stop asked: {event.reason}"
        case ev.RestAsked():
            return f"rest asked: {event.reason}"
        case ev.Resumed():
            return f"resumed after {event.down_s:g}"
        case ev.RunExtended():
            limits = (event.deadline_s, event.budget_usd, event.max_nodes, event.more_trials)
            return f"extended: {' '.join(map(str, limits))}"
        case ev.TrialStopAsked():
            return f"stop of trial {event.trial} asked: {event.reason}"
        case ev.ConfigAdded():
            return f"added {dict(event.config)}"


def _say_command(command: AnyCommand) -> str:  # noqa: C901, PLR0911, PLR0912
    match command:
        case do.Train():
            until = f"{command.after_iteration}..{command.until_iteration}"
            return f"-> train {command.trial} {until} on {place(command.gang)}"
        case do.Revoke():
            return f"-> revoke {command.trial}"
        case do.Pause():
            return f"-> {'save' if command.stay else 'pause'} {command.trial}"
        case do.Stow():
            return f"save the model of trial {command.trial}"
        case do.Stop():
            return f"-> stop {command.trial}"
        case do.Sample():
            return f"-> draw {[int(trial) for trial in command.trials]}"
        case do.Fork():
            return f"-> fork {command.trial} from {command.parent} at {command.iteration}"
        case do.RequestNodes():
            return f"-> ask for {command.count}"
        case do.ReleaseNodes():
            return f"-> give back {' '.join(command.nodes)}"
        case do.LimitNodes():
            return f"-> at most {command.most}"
        case do.SetTimer():
            return f"-> set {command.timer} to {command.at_s:g}"
        case do.CancelTimer():
            return f"-> cancel {command.timer}"
        case do.Barrier():
            return f"-> barrier {command.stage} of pool {command.pool}"
        case do.Note():
            return f"-> note {command.topic}: {command.text}"
        case do.Rest():
            return "-> rest"
        case do.EndRun(best=best):
            what = "nothing" if best is None else f"{best.metric:g} of trial {best.trial}"
            return f"-> end, {command.reason.value}, with {what}"


def place(gang: Gang) -> str:
    """`n0:0,1 n1:0`."""
    nodes: dict[str, list[str]] = {}
    for slot in gang:
        nodes.setdefault(slot.node, []).append(str(slot.number))
    return " ".join(f"{node}:{','.join(numbers)}" for node, numbers in nodes.items())


def _rows(event: ev.Progressed) -> str:
    rows = [row.iteration for row in event.rows]
    text = f" {rows[0]}..{rows[-1]}" if rows else ""
    return f"{text}, saved {','.join(map(str, event.saved))}" if event.saved else text
