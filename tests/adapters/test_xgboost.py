"""Boosting in pieces is boosting, whatever is drawn at random; the config decides, not the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import xgboost
from sklearn.datasets import load_breast_cancer

from elastune.adapters.xgboost import xgboost_trainable
from elastune.checkpoints.encoding import decode
from elastune.errors import JobError
from tests.adapters.contract import train

X, Y = load_breast_cancer(return_X_y=True)
TRAIN, TEST = (X[:400], Y[:400]), (X[400:], Y[400:])
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "eval_metric": ["logloss", "auc"]}


def make(config: Mapping[str, Any]) -> Any:
    return {**PARAMS, **config}, TRAIN, TEST


def booster(state: bytes) -> xgboost.Booster:
    return xgboost.Booster(model_file=bytearray(decode(state)["booster"]))


@pytest.mark.parametrize(
    "drawn",
    [
        {},
        {"subsample": 0.6},
        {"colsample_bylevel": 0.5},
        {"booster": "dart", "rate_drop": 0.3},
        {"booster": "gblinear"},
        {"tree_method": "exact", "subsample": 0.6},
    ],
    ids=str,
)
def test_a_pause_changes_nothing_whatever_is_drawn(drawn: dict[str, Any]) -> None:
    user = xgboost_trainable(make, rounds=3)
    if drawn.get("booster") == "gblinear":
        drawn = {**drawn, "max_depth": None}
    rows, end = train(user, drawn, 1, 4)
    _, half = train(user, drawn, 1, 2)
    again, same = train(user, drawn, 3, 4, half)
    assert again == rows[2:]
    assert same == end


def test_without_chance_it_is_the_model_of_xgboost_itself() -> None:
    _, half = train(xgboost_trainable(make, rounds=3), {}, 1, 2)
    _, state = train(xgboost_trainable(make, rounds=3), {}, 3, 4, half)
    whole = xgboost.train(PARAMS, xgboost.DMatrix(*TRAIN), num_boost_round=12)
    data = xgboost.DMatrix(TEST[0])
    np.testing.assert_array_equal(booster(state).predict(data), whole.predict(data))
    assert booster(state).num_boosted_rounds() == 12


def test_metrics_have_the_names_of_the_sets() -> None:
    (row,), _ = train(xgboost_trainable(make), {}, 1, 1)
    assert sorted(row) == ["auc", "logloss"]

    def make_two(config: Mapping[str, Any]) -> Any:
        data = xgboost.DMatrix(*TRAIN)
        return PARAMS, data, {"train": data, "valid": TEST}

    (named,), _ = train(xgboost_trainable(make_two), {}, 1, 1)
    assert sorted(named) == ["train_auc", "train_logloss", "valid_auc", "valid_logloss"]
    assert named["valid_auc"] == row["auc"]


def test_the_config_decides_and_not_the_state() -> None:
    user = xgboost_trainable(make, rounds=1)
    _, state = train(user, {"max_depth": 1}, 1, 1)
    _, deeper = train(user, {"max_depth": 3}, 2, 2, state)
    first, second = booster(deeper).get_dump()
    assert first.count("leaf=") == 2
    assert second.count("leaf=") > 2


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"eta": 1}, r"make\(config\) returned a dict; expected params, train, test"),
        ((PARAMS, TRAIN), r"make\(config\) returned 2 things \(dict, tuple\); expected params, train, test"),
        (([1], TRAIN, TEST), r"make\(config\) gave a list; expected params, train, test"),
        ((PARAMS, X, TEST), r"make\(config\) gave a ndarray; expected params, train, test"),
    ],
    ids=["dict", "two", "list", "array"],
)
def test_what_make_should_return_is_in_the_error(made: object, message: str) -> None:
    with pytest.raises(JobError, match=message):
        train(xgboost_trainable(lambda config: made), {}, 1, 1)


def test_rounds_are_counted_from_one() -> None:
    with pytest.raises(JobError, match="rounds is 0; expected a whole number from 1"):
        xgboost_trainable(make, rounds=0)
