"""Encodes messages as canonical JSON lines, decodes them, and replays or audits a journal with a fresh core.

One line per message: keys sorted, no blanks, ASCII, every field written. Fields added after the first version
are written only if they differ from their default, so that old journals keep their lines. The same message
is the same line on every machine, so lines can be compared and hashed. JSON has no NaN and no infinity; such
a metric is written as text.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from elastune.core.commands import AnyCommand, Best, Ending, Pause, Sample, SetTimer, Train, Visit
from elastune.core.core import Core
from elastune.core.events import (
    AnyEvent,
    GangLost,
    GangStarted,
    LeaseEnd,
    NodeFound,
    NodesGranted,
    NodesReady,
    RestAsked,
    Resumed,
    Row,
    RunStarted,
    Sampled,
    StopAsked,
    TrialPaused,
    VisitEnded,
)
from elastune.errors import ExecutionError
from elastune.journal.lines import WRITERS, NotPlain
from elastune.journal.records import Entry
from elastune.model.ids import Slot

Message = AnyEvent | AnyCommand
Kind = TypeVar("Kind", bound=Message)

TYPES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Message)}
_LATER: dict[type[Any], tuple[tuple[str, object], ...]] = {
    Train: (("origin", None), ("shares", ()), ("visit", None), ("then", None)),
    SetTimer: (("fresh", False),),
    NodesGranted: (("usd_per_hour", None),),
    NodesReady: (("hosts", ()),),
    NodeFound: (("usd_per_hour", None),),
    GangLost: (("model_lost", False),),
    VisitEnded: (("left_out", ()), ("unused", "")),
    GangStarted: (("repeated", 0), ("changed", "")),
    RunStarted: (("startup_s", 0.0), ("deadline_s", None)),
    Resumed: (("deadline_s", None), ("budget_usd", None)),
    Pause: (("stay", False),),
    TrialPaused: (("stays", False),),
    Sample: (("given", ()),),
    StopAsked: (("request_id", ""),),
    RestAsked: (("request_id", ""),),
}
"""Fields that the first journals did not have, with the value assumed for them."""
_FIELDS = {
    cls: tuple(field.name for field in dataclasses.fields(cls) if field.name not in dict(_LATER.get(cls, ())))
    for cls in TYPES.values()
}
_READ = {cls: operator.attrgetter(*names) for cls, names in _FIELDS.items() if len(names) > 1}
_MARKS = {cls: f'"type":"{name}"' for name, cls in TYPES.items()}
_ROWS_MARK = '"rows":[['
_AFTER_ROWS, _TEXT_MARK = ',"saved":[', '":"'
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, default=dataclasses.asdict
)


def _make_dump() -> Callable[[object], str]:
    """`_ENCODER.encode` with the C encoder made once instead of per line: twice as fast."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _ENCODER.encode
    escape = json.encoder.encode_basestring_ascii
    encode_chunks = make(None, _ENCODER.default, escape, None, ":", ",", True, False, False)
    return lambda data: "".join(encode_chunks(data, 0))


_dump = _make_dump()
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(message: Message) -> str:
    write = WRITERS.get(type(message))
    if write is not None:
        try:
            return write(message)
        except (NotPlain, TypeError):
            pass
    return encode_any(message)


def encode_any(message: Message) -> str:
    """The line of any message; `encode` gives the same."""
    cls = type(message)
    read = _READ.get(cls)
    names = _FIELDS[cls]
    values = read(message) if read is not None else tuple(getattr(message, name) for name in names)
    data = dict(zip(names, values, strict=True))
    data["type"] = cls.__name__
    for name, default in _LATER.get(cls, ()):
        if (value := getattr(message, name)) != default:
            data[name] = value
    try:
        return _dump(data)
    except ValueError:
        return _dump(_spell_out(data))


def decode(line: str) -> Message:
    """Raises `ExecutionError` if `encode` cannot have written the line."""
    try:
        data = json.loads(line)
        cls = TYPES[data.pop("type")]
        for name, value in data.items():
            read = _DECODERS.get(name)
            if read is not None and value is not None:
                data[name] = _plain_rows(value) if name == "rows" and _is_plain(line) else read(value)
        message: Message = cls(**data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ExecutionError(
            f"the journal has a line that is neither an event nor a command ({error!r}): {line[:200]}"
        ) from None
    return message


# The next functions search the text of a line: a hundred times faster than decoding it.


def mentions(line: str, *kinds: type[Message]) -> bool:
    """Whether a line is a message of one of these kinds, or has a value that looks like one; `select` is
    exact."""
    return any(_MARKS[kind] in line for kind in kinds)


def select(lines: Iterable[str], kind: type[Kind]) -> Iterator[Kind]:
    """The messages of exactly this kind; other lines are not decoded."""
    for line in lines:
        if _MARKS[kind] in line and isinstance(message := decode(line), kind):
            yield message


def has_rows(line: str) -> bool:
    return _ROWS_MARK in line


def time_of(event_line: str) -> float:
    return float(json.loads(event_line)["at_s"])


def _spell_out(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {key: _spell_out(item) for key, item in value.items()}
        case list() | tuple():
            return [_spell_out(item) for item in value]
        case _:
            return value


_as_row = functools.partial(tuple.__new__, Row)


def _is_plain(line: str) -> bool:
    """Whether no metric is written as text; in doubt, no."""
    return line.find(_TEXT_MARK, line.find(_ROWS_MARK), line.rfind(_AFTER_ROWS)) < 0


def _plain_rows(value: list[Any]) -> tuple[Row, ...]:
    """Most lines of a long journal are rows, so they are read without a Python function for each."""
    if not set(map(len, value)) <= {len(Row._fields)}:
        raise ValueError("a row has an iteration, a time and metrics")
    return tuple(map(_as_row, value))


def _rows(value: list[Any]) -> tuple[Row, ...]:
    return tuple(
        Row(iteration, at_s, {key: _WORDS[v] if isinstance(v, str) else v for key, v in metrics.items()})
        for iteration, at_s, metrics in value
    )


def _trials(value: list[Any]) -> tuple[Any, ...]:
    return tuple(Sampled(*item) if isinstance(item, list) else item for item in value)


def _reason(value: str) -> object:
    """A `LeaseEnd`, an `Ending` or free text; the two enumerations share no value."""
    for kind in (LeaseEnd, Ending):
        if value in kind._value2member_map_:
            return kind(value)
    return value


# A field name means the same in every message, so one table is enough.
_DECODERS: dict[str, Callable[[Any], object]] = {
    "gang": lambda value: tuple(Slot(*item) for item in value),
    "rows": _rows,
    "saved": tuple,
    "nodes": tuple,
    "lost": lambda value: tuple((node, billed_s) for node, billed_s in value),
    "trials": _trials,
    "given": _trials,
    "reason": _reason,
    "best": lambda value: Best(**value),
    "shares": lambda value: tuple(tuple(share) for share in value),
    "left_out": tuple,
    "hosts": lambda value: tuple(tuple(names) for names in value),
    "visit": lambda value: Visit(*value),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """The first event for which a replay gives other commands than the journal has."""

    number: int
    event: str
    journalled: tuple[str, ...]
    replayed: tuple[str, ...]


def replay(core: Core, entries: Iterable[Entry]) -> Core:
    """Bring a fresh core to the end of the journal."""
    for entry in entries:
        core.handle(event_of(entry))
    return core


def audit(core: Core, entries: Iterable[Entry]) -> Deviation | None:
    """Replay and compare every command; None if this core would have commanded the same."""
    for entry in entries:
        replayed = tuple(encode(command) for command in core.handle(event_of(entry)))
        if replayed != entry.command_lines:
            return Deviation(
                number=entry.number, event=entry.event_line, journalled=entry.command_lines, replayed=replayed
            )
    return None


def event_of(entry: Entry) -> AnyEvent:
    message: Message = decode(entry.event_line)
    if not isinstance(message, AnyEvent):
        raise ExecutionError(f"entry {entry.number} of the journal begins with a command; expected an event")
    return message
