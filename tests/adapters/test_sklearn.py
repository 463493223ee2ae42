"""All that learns in pieces is saved as plain data and comes back as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from sklearn import cluster, decomposition, ensemble, linear_model, naive_bayes, neural_network
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits

from elastune.adapters.sklearn import sklearn_trainable
from elastune.checkpoints.encoding import decode
from elastune.errors import JobError
from tests.adapters.contract import train
from tests.thoroughness import most_telling

DIGITS = load_digits()
X, Y = DIGITS.data[:600] / 16, DIGITS.target[:600]
TRAIN, TEST = (X[:400], Y[:400]), (X[400:], Y[400:])

CLASSIFIERS: list[Callable[[], Any]] = [
    linear_model.SGDClassifier,
    lambda: linear_model.SGDClassifier(average=True, loss="log_loss"),
    lambda: linear_model.SGDClassifier(average=500, random_state=3),
    linear_model.Perceptron,
    lambda: linear_model.SGDRegressor(average=True),
    lambda: neural_network.MLPClassifier([16]),
    lambda: neural_network.MLPClassifier([16], solver="sgd", random_state=3),
    lambda: neural_network.MLPRegressor(hidden_layer_sizes=[16]),
    naive_bayes.GaussianNB,
    naive_bayes.MultinomialNB,
    naive_bayes.BernoulliNB,
    naive_bayes.ComplementNB,
]
OTHERS: list[Callable[[], Any]] = [
    lambda: cluster.MiniBatchKMeans(10),
    lambda: decomposition.IncrementalPCA(5),
    lambda: decomposition.MiniBatchDictionaryLearning(3),
    lambda: decomposition.MiniBatchNMF(3),
    lambda: decomposition.LatentDirichletAllocation(3),
]


def name_of(build: Callable[[], Any]) -> str:
    return repr(build())


def goes_on_as_if_nothing_had_happened(user: Any, *, pickles: bool = False) -> None:
    rows, end = train(user, {}, 1, 4, pickles=pickles)
    _, half = train(user, {}, 1, 2, pickles=pickles)
    again, same = train(user, {}, 3, 4, half, pickles=pickles)
    assert again == rows[2:]
    assert pickles or same == end


@most_telling("build", *CLASSIFIERS, quick=5, ids=name_of)
def test_estimators_that_predict_go_on_as_if_nothing_had_happened(build: Callable[[], Any]) -> None:
    goes_on_as_if_nothing_had_happened(sklearn_trainable(lambda config: (build(), TRAIN, TEST)))


@most_telling("build", *OTHERS, quick=2, ids=name_of)
def test_estimators_that_describe_go_on_as_if_nothing_had_happened(build: Callable[[], Any]) -> None:
    user = sklearn_trainable(
        lambda config: (build(), X[:400], X[400:]),
        score=lambda model, x: {"mean": float(np.mean(model.transform(x)))},
    )
    goes_on_as_if_nothing_had_happened(user)


def make_linear(config: Mapping[str, Any]) -> Any:
    return linear_model.SGDClassifier(**config), TRAIN, TEST


def test_pickled_estimators_go_on_too() -> None:
    user = sklearn_trainable(make_linear, pickled=True)
    goes_on_as_if_nothing_had_happened(user, pickles=True)
    with pytest.raises(JobError, match=r"SGDClassifier; a state has .* `pickles: true`"):
        train(user, {}, 1, 1)


@pytest.mark.parametrize("pickled", [False, True])
def test_the_config_decides_and_not_the_state(pickled: bool) -> None:
    """Without a learning rate to speak of, the weights stay where they were."""

    def weights(state: bytes) -> Any:
        estimator = decode(state, pickles=True)["estimator"]
        return estimator.coef_ if pickled else estimator["coef_"]

    user = sklearn_trainable(make_linear, pickled=pickled)
    _, state = train(user, {"learning_rate": "constant", "eta0": 0.01}, 1, 2, pickles=True)
    _, still = train(user, {"learning_rate": "constant", "eta0": 1e-30}, 3, 3, state, pickles=True)
    _, moved = train(user, {"learning_rate": "constant", "eta0": 0.01}, 3, 3, state, pickles=True)
    np.testing.assert_allclose(weights(still), weights(state), atol=1e-12)
    assert not np.allclose(weights(moved), weights(state))


def test_the_config_decides_about_the_optimizer_inside_a_network() -> None:
    def make(config: Mapping[str, Any]) -> Any:
        network = neural_network.MLPClassifier([8], solver="sgd", momentum=0.0, **config)
        return network, TRAIN, TEST

    user = sklearn_trainable(make)
    _, state = train(user, {"learning_rate_init": 0.1}, 1, 2)
    _, still = train(user, {"learning_rate_init": 1e-30}, 3, 3, state)
    before, after = (decode(each)["estimator"]["coefs_"] for each in (state, still))
    np.testing.assert_allclose(after[0], before[0], atol=1e-12)


class Vocabulary(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Remembers labels in a dict, which is no plain data."""

    def partial_fit(self, x: Any, y: Any, classes: Any = None) -> Vocabulary:
        self.seen_ = {int(label): 1 for label in y}
        return self

    def score(self, x: Any, y: Any) -> float:
        return float(len(self.seen_))


def test_what_is_no_plain_data_is_told_with_the_way_out() -> None:
    user = sklearn_trainable(lambda config: (Vocabulary(), TRAIN, TEST))
    message = r"Vocabulary\.seen_ is a dict, .*sklearn_trainable\(make, pickled=True\) and `pickles: true`"
    with pytest.raises(JobError, match=message):
        train(user, {}, 1, 1)


def test_an_estimator_that_cannot_learn_in_pieces_is_refused() -> None:
    user = sklearn_trainable(lambda config: (linear_model.LogisticRegression(), TRAIN, TEST))
    with pytest.raises(JobError, match=r"gave a LogisticRegression, which has no .*\n.* = make\(config\)"):
        train(user, {}, 1, 1)


def test_an_estimator_without_partial_fit_is_led_to_the_black_box() -> None:
    def forest(config: Mapping[str, Any]) -> Any:
        return ensemble.RandomForestClassifier(n_estimators=2), TRAIN, TEST

    with pytest.raises(JobError) as caught:
        train(sklearn_trainable(forest), {}, 1, 1)
    message = str(caught.value)
    assert "a RandomForestClassifier, which has no partial_fit" in message
    assert "docs/how-to/black-boxes.md" in message
    first, second = (line.strip() for line in message.splitlines()[-2:])
    scope: dict[str, Any] = {"forest": forest}
    exec(f"def score(config):\n  {first}\n  {second}", scope)
    assert 0.0 < scope["score"]({}) <= 1.0
