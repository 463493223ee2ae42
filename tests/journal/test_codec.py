"""Messages as canonical lines: every one comes back as it was, and is always the same line."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastune.core import commands as do
from elastune.core import events as ev
from elastune.errors import ExecutionError
from elastune.journal.codec import TYPES, decode, encode, encode_any, has_rows, mentions, select, time_of
from elastune.model.ids import Gang, NodeId, Slot, TrialId

texts = st.text(max_size=12)
whole = st.integers(-(2**53), 2**53)
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | whole | numbers | texts
plain: st.SearchStrategy[object] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
slots = st.builds(Slot, st.builds(NodeId, texts), st.integers(0, 99))
rows = st.builds(ev.Row, st.integers(1, 999), numbers, st.dictionaries(texts, numbers | whole, max_size=3))
sampled = st.builds(
    ev.Sampled, st.builds(TrialId, st.integers(0, 999)), st.dictionaries(texts, scalars, max_size=3)
)
bests = st.builds(do.Best, trial=st.builds(TrialId, st.integers(0, 99)), iteration=whole, metric=numbers)


def many(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=3).map(tuple)


# The values of a configuration have a recursive type, which cannot be resolved as it is.
RECURSIVE = {"Value": object}
CONFIG = get_type_hints(ev.ConfigAdded, localns=RECURSIVE)["config"]

BY_TYPE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (float, numbers),
    (int, whole),
    (str, texts),
    (bool, st.booleans()),
    (type(None), st.none()),
    (TrialId, st.builds(TrialId, st.integers(0, 999))),
    (NodeId, st.builds(NodeId, texts)),
    (ev.LeaseEnd, st.sampled_from(ev.LeaseEnd)),
    (do.Ending, st.sampled_from(do.Ending)),
    (do.Best, bests),
    (Gang, many(slots)),
    (Mapping[str, object], st.dictionaries(texts, plain, max_size=3)),
    (CONFIG, st.dictionaries(texts, scalars, max_size=3)),
    (tuple[ev.Row, ...], many(rows)),
    (tuple[ev.Sampled, ...], many(sampled)),
    (tuple[int, ...], many(whole)),
    (tuple[str, ...], many(texts)),
    (tuple[TrialId, ...], many(st.builds(TrialId, st.integers(0, 999)))),
    (tuple[NodeId, ...], many(st.builds(NodeId, texts))),
    (tuple[tuple[NodeId, float], ...], many(st.tuples(st.builds(NodeId, texts), numbers))),
    (tuple[tuple[str, ...], ...], many(many(texts))),
    (tuple[tuple[int, ...], ...], many(many(whole))),
    (do.Visit | None, st.none() | st.builds(do.Visit, whole, whole, whole, st.booleans())),
]


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """A new kind of field needs a line above; that is the moment to think of the codec."""
    for known, strategy in BY_TYPE:
        if kind == known:
            return strategy
    parts = get_args(kind)
    assert type(None) in parts, f"no values for a field of type {kind}"
    return st.one_of(*map(values_of, parts))


def messages(cls: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls, localns=RECURSIVE)
    return st.builds(cls, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(cls)})


def test_every_event_and_every_command_is_known() -> None:
    known = {cls.__name__ for cls in (*get_args(ev.AnyEvent), *get_args(do.AnyCommand))}
    assert set(TYPES) == known
    written = {
        name
        for module, base in ((ev, ev.Event), (do, do.Command))
        for name, cls in vars(module).items()
        if isinstance(cls, type) and issubclass(cls, base) and cls is not base
    }
    assert written == known, "a message is missing in AnyEvent or AnyCommand"


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_message_comes_back_as_it_was(name: str) -> None:
    @settings(max_examples=30)
    @given(message=messages(TYPES[name]))
    def comes_back(message: Any) -> None:
        line = encode(message)
        back = decode(line)
        assert back == message
        assert type(back) is type(message)
        assert encode(back) == line == encode_any(message)
        assert "\n" not in line
        assert line.isascii()
        assert line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":"))

    comes_back()


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_message_that_came_back_has_the_same_types_inside(name: str) -> None:
    """Equality is not enough: a list is no tuple, and text is no member of an enum."""

    @settings(max_examples=10)
    @given(message=messages(TYPES[name]))
    def has_the_same_types(message: Any) -> None:
        back = decode(encode(message))
        for field in dataclasses.fields(message):
            if field.name != "job":
                assert _types(getattr(back, field.name)) == _types(getattr(message, field.name)), field.name

    has_the_same_types()


def _types(value: Any) -> Any:
    if isinstance(value, tuple):
        return type(value), [_types(item) for item in value]
    if isinstance(value, Mapping):
        return {key: type(item) for key, item in value.items()}
    return type(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_metrics_come_back(value: float) -> None:
    event = ev.Progressed(
        at_s=1.0, trial=TrialId(0), generation=1, rows=(ev.Row(1, 1.0, {"score": value, "loss": 0.5}),)
    )
    assert decode(encode(event)) == event


def test_a_metric_that_is_no_number_comes_back_as_one() -> None:
    event = ev.Progressed(
        at_s=1.0, trial=TrialId(0), generation=1, rows=(ev.Row(1, 1.0, {"score": math.nan, "loss": 0.5}),)
    )
    line = encode(event)
    assert '{"loss":0.5,"score":"nan"}' in line
    back = decode(line)
    assert isinstance(back, ev.Progressed)
    metrics = back.rows[0].metrics
    assert math.isnan(metrics["score"])
    assert metrics["loss"] == 0.5
    assert encode(back) == line


def test_the_canonical_form_is_this() -> None:
    """Journals are hashed and compared over years: changing a line is breaking every old journal."""
    train = do.Train(
        trial=TrialId(3),
        generation=2,
        gang=(Slot(NodeId("n0"), 0), Slot(NodeId("n1"), 3)),
        after_iteration=4,
        until_iteration=9,
        until_s=1e-7,
    )
    assert encode(train) == (
        '{"after_iteration":4,"gang":[["n0",0],["n1",3]],"generation":2,"keep_above":null,"trial":3,'
        '"type":"Train","until_iteration":9,"until_s":1e-07}'
    )
    ended = ev.LeaseEnded(
        at_s=0.1 + 0.2,
        trial=TrialId(3),
        generation=2,
        rows=(ev.Row(5, 0.25, {"score": 1.0, "loss": -math.inf}),),
        saved=(5,),
        reason=ev.LeaseEnd.TIME,
    )
    assert encode(ended) == (
        '{"at_s":0.30000000000000004,"generation":2,"reason":"time","rows":[[5,0.25,{"loss":"-inf",'
        '"score":1.0}]],"saved":[5],"trial":3,"type":"LeaseEnded"}'
    )
    end = do.EndRun(reason=do.Ending.BUDGET, best=do.Best(trial=TrialId(1), iteration=2, metric=0.5))
    assert encode(end) == (
        '{"best":{"iteration":2,"metric":0.5,"trial":1},"reason":"budget","type":"EndRun"}'
    )
    assert encode(do.Pause(trial=TrialId(1), generation=2)) == '{"generation":2,"trial":1,"type":"Pause"}'
    paused = ev.TrialPaused(at_s=1.5, trial=TrialId(1), generation=2)
    assert encode(paused) == '{"at_s":1.5,"generation":2,"trial":1,"type":"TrialPaused"}'
    assert decode('{"generation":2,"trial":1,"type":"Pause"}') == do.Pause(trial=TrialId(1), generation=2)
    note = do.Note(topic="größe", text='a "word"\n木')
    assert encode(note) == '{"text":"a \\"word\\"\\n\\u6728","topic":"gr\\u00f6\\u00dfe","type":"Note"}'


def test_the_order_of_keys_does_not_matter() -> None:
    one = ev.Row(1, 1.0, {"a": 1.0, "b": 2.0})
    other = ev.Row(1, 1.0, {"b": 2.0, "a": 1.0})
    lines = {
        encode(ev.Progressed(at_s=1.0, trial=TrialId(0), generation=1, rows=(row,))) for row in (one, other)
    }
    assert len(lines) == 1


@pytest.mark.parametrize("reason", [*ev.LeaseEnd, *do.Ending])
def test_the_reasons_of_leases_and_of_runs_have_no_word_in_common(reason: str) -> None:
    """The codec distinguishes them by their values."""
    assert (reason in set(map(str, ev.LeaseEnd))) != (reason in set(map(str, do.Ending)))


GARBAGE = [
    "",
    "{",
    "[]",
    "{}",
    '{"type":"Nonsense"}',
    '{"type":null}',
    '{"type":"Note"}',
    '{"type":"Note","topic":"a"}',
    '{"type":"Note","topic":"a","text":"b","more":1}',
    '{"type":"Event","at_s":1.0}',
    '{"type":"Train","gang":[1]}',
    '{"type":"EndRun","best":{"trial":1},"reason":"budget"}',
    '{"type":"ReleaseNodes","nodes":7}',
    '{"at_s":1,"generation":1,"rows":[[1,2]],"saved":[],"trial":0,"type":"Progressed"}',
    '{"at_s":1,"generation":1,"rows":[[1,2,{"a":"b"}]],"saved":[],"trial":0,"type":"Progressed"}',
    '{"at_s":1,"down_s":1,"lost":[["n0"]],"type":"Resumed"}',
]


@pytest.mark.parametrize("line", GARBAGE)
def test_a_line_that_is_no_message_says_so(line: str) -> None:
    with pytest.raises(ExecutionError, match="the journal has a line that is neither an event nor a command"):
        decode(line)


@given(line=st.dictionaries(texts, plain, max_size=3).map(json.dumps))
def test_any_other_object_is_refused_and_never_breaks_the_reader(line: str) -> None:
    with pytest.raises(ExecutionError):
        decode(line)


def test_a_look_at_the_text_tells_what_a_line_is() -> None:
    row = ev.Row(1, 2.5, {"score": 1.0})
    events: list[ev.AnyEvent] = [
        ev.LeaseEnded(at_s=2.5, trial=TrialId(0), generation=1, rows=(row,), reason=ev.LeaseEnd.REACHED),
        ev.Resumed(at_s=3.0, down_s=1.0),
    ]
    lines = [encode(event) for event in events]
    assert [mentions(line, ev.LeaseEnded) for line in lines] == [True, False]
    assert all(mentions(line, ev.Resumed, ev.LeaseEnded) for line in lines)
    assert list(select(lines, ev.Resumed)) == events[1:]
    assert [has_rows(line) for line in lines] == [True, False]
    assert [time_of(line) for line in lines] == [2.5, 3.0]
    quoting = encode(ev.RunStarted(at_s=0.0, policy="p", seed=0, job={"type": "Resumed"}))
    assert list(select([quoting], ev.Resumed)) == []
