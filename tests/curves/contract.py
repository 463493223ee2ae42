"""What every curve promises, checked on each implementation."""

from __future__ import annotations

import math

from elastune.curves.source import Curve, CurveSource, Row


def same(left: Row, right: Row) -> bool:
    return left.keys() == right.keys() and all(
        value == right[name] or (math.isnan(value) and math.isnan(right[name]))
        for name, value in left.items()
    )


def assert_is_a_curve(trainable: CurveSource, curve: Curve) -> None:
    """Rows of a range are those of its iterations, in any order and however often they are asked for."""
    last = min(curve.length or 7, 7)
    whole = curve.rows(1, last)
    assert len(whole) == last
    for iteration in reversed(range(1, last + 1)):
        (alone,) = curve.rows(iteration, iteration)
        assert same(alone, whole[iteration - 1])
        assert isinstance(alone[trainable.metric], float)
    seconds = curve.seconds(1, last)
    assert seconds is None or (len(seconds) == last and all(value >= 0.0 for value in seconds))
    if curve.length is not None:
        assert len(curve.rows(1, curve.length + 5)) == curve.length
        assert list(curve.rows(curve.length + 1, curve.length + 5)) == []
