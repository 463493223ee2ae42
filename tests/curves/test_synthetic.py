"""The training function of HyperSched."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.curves.opening import open_trainable
from elastune.curves.source import CurveSource
from elastune.errors import JobError
from elastune.model.metric import Mode
from elastune.space.plain_samplers import RandomSampler
from tests.curves.contract import assert_is_a_curve


@pytest.fixture
def trainable() -> CurveSource:
    return open_trainable("synthetic:hypersched")


@given(st.floats(0, 3), st.floats(0, 1), st.floats(0, 1), st.integers(1, 500))
def test_the_score_is_the_formula_of_the_paper(b0: float, b1: float, b2: float, k: int) -> None:
    curve = open_trainable("synthetic:hypersched").curve({"b0": b0, "b1": b1, "b2": b2}, (0, 0))
    expected = (2 - (1 / (0.01 * b0 * k + 0.1 * b1 + 0.5) + 0.01 * b2)) / 2
    assert curve.rows(k, k)[0]["score"] == pytest.approx(expected, abs=1e-12)
    assert -0.01 <= expected <= 1


def test_its_own_space_draws_b0_from_the_exponential_distribution(trainable: CurveSource) -> None:
    assert trainable.space is not None
    assert (trainable.metric, trainable.mode) == ("score", Mode.MAX)
    sampler = RandomSampler(trainable.space, seed=1)
    curves = [trainable.curve(sampler.ask(trial), (1, trial)) for trial in range(3000)]
    b0 = [curve.b0 for curve in curves]  # type: ignore[attr-defined]
    assert sum(b0) / 3000 == pytest.approx(0.1, rel=0.06)
    assert sum(value > 0.1 for value in b0) / 3000 == pytest.approx(1 / math.e, rel=0.06)


def test_it_is_an_endless_curve_without_seconds(trainable: CurveSource) -> None:
    curve = trainable.curve({"b0_rank": 0.5, "b1": 0.1, "b2": 0.9}, (0, 0))
    assert_is_a_curve(trainable, curve)
    assert curve.length is None
    assert curve.seconds(1, 3) is None
    assert trainable.profile() is None
    scores = [row["score"] for row in curve.rows(1, 100)]
    assert scores == sorted(scores)


def test_the_last_rank_is_the_best_of_ten_thousand_and_not_infinite(trainable: CurveSource) -> None:
    """Whoever clips a rank to 1, as PBT does, would else have learnt everything after one iteration."""
    last, nearly = (
        trainable.curve({"b0_rank": rank, "b1": 0.0, "b2": 1.0}, (0, 0)).rows(1, 3) for rank in (1.0, 0.9999)
    )
    assert last == nearly
    assert last[0]["score"] < 0.1


@pytest.mark.parametrize("config", [{}, {"b0": "x", "b1": 0, "b2": 0}, {"b0": -1, "b1": 0, "b2": 0}])
def test_a_configuration_without_its_parameters_is_refused(
    trainable: CurveSource, config: dict[str, object]
) -> None:
    with pytest.raises(JobError, match=r"synthetic:hypersched: b0 is .*needs b0_rank \(or b0\), b1 and b2"):
        trainable.curve(config, (0, 0))  # type: ignore[arg-type]


def test_it_has_no_other_metric() -> None:
    with pytest.raises(JobError, match="metric is 'accuracy'; this trainable has only 'score'"):
        open_trainable("synthetic:hypersched", metric="accuracy")
