"""The lines of the messages that make up most of a journal, written without the general encoder.

Each function gives what `codec.encode` gives for that type, faster; `tests/journal/test_codec.py` compares
them. A value that a line cannot have as it is (a number that is not finite or of another type, a
field that is seldom set) raises `NotPlain`, and the general encoder writes the line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from elastune.core.commands import Pause, Revoke, SetTimer, Stop, Train
from elastune.core.events import GangStarted, LeaseEnded, Progressed, Row, TimerFired, TrialPaused
from elastune.model.ids import Gang

_write_float = float.__repr__
_write_int = int.__repr__
_quote = lru_cache(maxsize=1024)(json.encoder.encode_basestring_ascii)


class NotPlain(Exception):  # noqa: N818  not an error: the general encoder takes over
    """The message has a value that this module does not write."""


def _number(value: Any) -> str:
    """A finite float; whole numbers are written as such."""
    if type(value) is float:
        if value - value != 0.0:  # NaN or infinite
            raise NotPlain
        return _write_float(value)
    if type(value) is int:
        return _write_int(value)
    raise NotPlain


def _optional(value: Any) -> str:
    return "null" if value is None else _number(value)


def _numbers(values: Sequence[int]) -> str:
    return ",".join([_write_int(value) for value in values]) if values else ""


@lru_cache(maxsize=4096)
def _slots(gang: Gang) -> str:
    return ",".join([f"[{_quote(slot.node)},{slot.number}]" for slot in gang])


def _rows(rows: Sequence[Row]) -> str:
    return _row(rows[0]) if len(rows) == 1 else ",".join([_row(row) for row in rows])


def _row(row: Row) -> str:
    iteration, at_s, metrics = row
    if len(metrics) == 1:
        ((name, value),) = metrics.items()
        if type(value) is float and value - value == at_s - at_s == 0.0:  # else not finite
            return f"[{iteration},{_write_float(at_s)},{{{_quote(name)}:{_write_float(value)}}}]"
    inner = ",".join([f"{_quote(name)}:{_number(metrics[name])}" for name in sorted(metrics)])
    return f"[{iteration},{_number(at_s)},{{{inner}}}]"


def _progressed(event: Progressed) -> str:
    at_s = event.at_s
    if at_s - at_s != 0.0:
        raise NotPlain
    return (
        f'{{"at_s":{_write_float(at_s)},"generation":{event.generation},"rows":[{_rows(event.rows)}],'
        f'"saved":[{_numbers(event.saved)}],"trial":{event.trial},"type":"Progressed"}}'
    )


def _lease_ended(event: LeaseEnded) -> str:
    return (
        f'{{"at_s":{_number(event.at_s)},"generation":{event.generation},"reason":"{event.reason._value_}",'
        f'"rows":[{_rows(event.rows)}],"saved":[{_numbers(event.saved)}],"trial":{event.trial},'
        '"type":"LeaseEnded"}'
    )


def _gang_started(event: GangStarted) -> str:
    if event.repeated or event.changed:
        raise NotPlain
    return (
        f'{{"at_s":{_number(event.at_s)},"generation":{event.generation},"trial":{event.trial},'
        '"type":"GangStarted"}'
    )


def _trial_paused(event: TrialPaused) -> str:
    stays = '"stays":true,' if event.stays else ""
    return (
        f'{{"at_s":{_number(event.at_s)},"generation":{event.generation},{stays}"trial":{event.trial},'
        '"type":"TrialPaused"}'
    )


def _timer_fired(event: TimerFired) -> str:
    return f'{{"at_s":{_number(event.at_s)},"timer":{_quote(event.timer)},"type":"TimerFired"}}'


def _train(command: Train) -> str:
    if command.shares or command.visit is not None or command.then is not None or command.origin is not None:
        raise NotPlain
    return (
        f'{{"after_iteration":{command.after_iteration},"gang":[{_slots(command.gang)}],'
        f'"generation":{command.generation},"keep_above":{_optional(command.keep_above)},'
        f'"trial":{command.trial},"type":"Train","until_iteration":{command.until_iteration},'
        f'"until_s":{_optional(command.until_s)}}}'
    )


def _pause(command: Pause) -> str:
    stay = '"stay":true,' if command.stay else ""
    return f'{{"generation":{command.generation},{stay}"trial":{command.trial},"type":"Pause"}}'


def _stop(command: Stop) -> str:
    return f'{{"generation":{command.generation},"trial":{command.trial},"type":"Stop"}}'


def _revoke(command: Revoke) -> str:
    return f'{{"generation":{command.generation},"trial":{command.trial},"type":"Revoke"}}'


def _set_timer(command: SetTimer) -> str:
    fresh = '"fresh":true,' if command.fresh else ""
    return f'{{"at_s":{_number(command.at_s)},{fresh}"timer":{_quote(command.timer)},"type":"SetTimer"}}'


WRITERS: dict[type[Any], Callable[[Any], str]] = {
    Progressed: _progressed,
    LeaseEnded: _lease_ended,
    GangStarted: _gang_started,
    TrialPaused: _trial_paused,
    TimerFired: _timer_fired,
    Train: _train,
    Pause: _pause,
    Stop: _stop,
    Revoke: _revoke,
    SetTimer: _set_timer,
}
