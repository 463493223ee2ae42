"""Random spaces for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from elastune.space.domain_parsing import is_domain
from elastune.space.parsing import parse_space
from elastune.space.space import Space, SpaceError

NUMBERS = st.floats(-1e6, 1e6) | st.integers(-1000, 1000).map(float)
POSITIVE = st.floats(1e-9, 1e6)
SCALARS = st.none() | st.booleans() | st.integers(-100, 100) | NUMBERS | st.text(max_size=5)
COMPOUND = st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
# Decimal steps that are not binary fractions are where rounding bites.
STEPS = st.sampled_from([0.1, 0.3, 2.5])
TENTHS = st.integers(-50, 50).map(lambda tenths: tenths / 10)


def ends(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
    return st.tuples(values, values).map(sorted)


WHOLE, COUNTS = ends(st.integers(-1000, 1000)), ends(st.integers(1, 10**6))
TRUE = st.just(True)
CONTINUOUS = st.one_of(
    st.fixed_dictionaries({"float": ends(NUMBERS)}),
    st.fixed_dictionaries({"float": ends(POSITIVE), "log": TRUE}),
)


def is_space(written: object) -> bool:
    """1, 1.0 and true are equal choices, and so are lists of them."""
    try:
        parse_space({"x": written})
    except SpaceError:
        return False
    return True


COUNTABLE = st.one_of(
    st.fixed_dictionaries({"float": ends(TENTHS), "step": STEPS}),
    st.fixed_dictionaries({"float": ends(NUMBERS), "grid": st.integers(2, 6)}),
    st.fixed_dictionaries({"float": ends(POSITIVE), "log": TRUE, "grid": st.integers(2, 6)}),
    st.fixed_dictionaries({"int": WHOLE}, optional={"step": st.integers(1, 50)}),
    st.fixed_dictionaries({"int": COUNTS, "log": TRUE}),
    st.lists(SCALARS, min_size=1, max_size=5, unique_by=lambda value: value),
    st.lists(SCALARS | COMPOUND, min_size=1, max_size=4, unique_by=repr).filter(is_space),
    SCALARS.filter(lambda value: value is not None),
)


NAMES = st.text(max_size=4).filter(lambda name: "." not in name)


def spaces(*, finite: bool = False) -> st.SearchStrategy[Space]:
    """Any space, or only such that a grid has points for."""
    entries = COUNTABLE if finite else COUNTABLE | CONTINUOUS
    groups = st.dictionaries(NAMES, entries, min_size=1, max_size=3).filter(
        lambda group: not is_domain(group)
    )
    return st.dictionaries(NAMES, entries | groups, min_size=1, max_size=5).map(parse_space)


@st.composite
def conditional_spaces(draw: st.DrawFn, *, finite: bool = False) -> Space:
    """A space in which about half of the entries are only there for some values of one before them.

    They are written in any order, so that a condition may come before what it depends on.
    """
    space = draw(spaces(finite=finite))
    written: dict[str, object] = {"kind": {"choice": ["a", "b", None, 3]}}
    possible: dict[str, list[object]] = {"kind": ["a", "b", None, 3]}
    for name, entry in space.to_plain().items():
        if name == "kind":
            continue
        written[name] = entry
        if isinstance(entry, dict):
            if draw(st.booleans()):
                parent = draw(st.sampled_from(sorted(possible)))
                values = draw(st.lists(st.sampled_from(possible[parent]), min_size=1, max_size=3))
                written[name] = {**entry, "when": {parent: values}}
            if "choice" in entry:
                possible[name] = entry["choice"]
    order = draw(st.permutations(sorted(written)))
    return parse_space({name: written[name] for name in order})
