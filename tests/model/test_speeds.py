"""What measured configurations say about the speed of others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model.configuration import Value
from elastune.model.speeds import ConfigSpeed, SpeedModel, fit_speeds, settings_of
from tests.thoroughness import most_telling

Config = dict[str, Value]
values: st.SearchStrategy[Value] = (
    st.none()
    | st.booleans()
    | st.integers(-(10**200), 10**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["relu", "gelu", ""])
)
configs = st.dictionaries(st.sampled_from(["width", "depth", "act", "lr"]), values, max_size=4)


def fitted(speeds: list[ConfigSpeed]) -> SpeedModel:
    model = fit_speeds(speeds)
    assert model is not None
    return model


def speed(config: Config, factor: float, weight: float = 6.0) -> ConfigSpeed:
    return ConfigSpeed(settings_of(config), factor, weight)


def network(rng: random.Random) -> Config:
    return {
        "width": 2 ** rng.randint(4, 9),
        "depth": rng.randint(1, 8),
        "act": rng.choice(["relu", "gelu"]),
        "lr": 10 ** rng.uniform(-4, -1),
        "nesterov": rng.random() < 0.5,
    }


def seconds_of(config: Config) -> float:
    """The law behind the measurements: width^1.5 * depth, and gelu doubles it."""
    width, depth = config["width"], config["depth"]
    assert isinstance(width, int)
    assert isinstance(depth, int)
    return math.pow(width / 64, 1.5) * depth / 4 * (2.0 if config["act"] == "gelu" else 1.0)


@pytest.mark.parametrize("points", [12, 16, 20])
def test_a_multiplicative_law_is_recovered_from_a_few_noisy_points(points: int) -> None:
    rng = random.Random(points)
    seen = [network(rng) for _ in range(points)]
    model = fitted([speed(each, seconds_of(each) * math.exp(rng.gauss(0, 0.03))) for each in seen])
    others = [network(rng) for _ in range(100)]
    factors, spreads = model.predict_all(others)
    errors = np.abs(np.log(factors / [seconds_of(each) for each in others]))
    assert np.median(errors) < 0.06
    assert np.median(spreads) < 0.15
    names = [each.name for each in model.influences()]
    assert set(names[:3]) == {"width", "depth", "act"}
    strong = {each.name: each.probability for each in model.influences()}
    assert min(strong["width"], strong["depth"], strong["act"]) > 0.9
    assert max(strong["lr"], strong["nesterov"]) < 0.5


Law = Callable[[Config], float]


def random_law(rng: random.Random) -> tuple[Callable[[], Config], Law]:
    """One to six hyperparameters, some of which do nothing, and noise from 1 % to 30 %."""
    kinds = [rng.choice(["size", "count", "category", "nothing"]) for _ in range(rng.randint(1, 6))]
    effects = [rng.gauss(0, 0.8) for _ in kinds]
    levels = [[rng.gauss(0, 0.5) for _ in "abc"] for _ in kinds]
    noise = rng.choice([0.01, 0.03, 0.1, 0.3])

    def draw() -> Config:
        domains: dict[str, Callable[[], Value]] = {
            "size": lambda: 2 ** rng.randint(4, 9),
            "count": lambda: rng.randint(2, 6),
            "category": lambda: rng.choice("abc"),
            "nothing": lambda: rng.uniform(0.001, 1),
        }
        return {f"h{at}": domains[kind]() for at, kind in enumerate(kinds)}

    def law(config: Config) -> float:
        log = rng.gauss(0, noise)
        for at, (kind, effect) in enumerate(zip(kinds, effects, strict=True)):
            value = config[f"h{at}"]
            if kind == "category":
                log += levels[at]["abc".index(str(value))]
            elif kind != "nothing":
                assert isinstance(value, int)
                log += effect * math.log(value / 8)
        return math.exp(log)

    return draw, law


@most_telling("points", 4, 8, 20, 6, 12, quick=3)
def test_the_intervals_hold_what_they_promise_over_many_laws(points: int) -> None:
    rng = random.Random(points)
    inside: list[bool] = []
    for _ in range(120):
        draw, law = random_law(rng)
        seen = [draw() for _ in range(points)]
        model = fit_speeds([speed(each, law(each)) for each in seen])
        if model is None:
            continue
        others = [draw() for _ in range(25)]
        factors, spreads = model.predict_all(others)
        variances = np.log1p(spreads**2)
        off = np.log([law(each) for each in others]) - (np.log(factors) - variances / 2)
        inside += list(np.abs(off) < 1.96 * np.sqrt(variances))
    assert 0.90 <= np.mean(inside) <= 0.99


@given(st.lists(st.tuples(configs, st.floats(1e-3, 1e3), st.floats(0.5, 100)), max_size=12), st.randoms())
def test_the_order_does_not_matter_and_every_guess_is_sound(
    drawn: list[tuple[Config, float, float]], rng: random.Random
) -> None:
    speeds = [speed(*each) for each in drawn]
    model = fit_speeds(speeds)
    different = {each.config for each in speeds}
    assert (model is None) == (len(different) < 2)
    if model is None:
        return
    shuffled = list(speeds)
    rng.shuffle(shuffled)
    asked = [dict(each) for each in different] + [{"width": 10**200, "new": "x"}, {}]
    factors, spreads = model.predict_all(asked)
    again = fitted(shuffled).predict_all(asked)
    assert np.array_equal(factors, again[0])
    assert np.array_equal(spreads, again[1])
    assert np.isfinite(factors).all()
    assert np.isfinite(spreads).all()
    assert (factors > 0).all()
    assert (spreads > 0).all()
    guess = model.predict(asked[0])
    assert (guess.factor, guess.spread) == pytest.approx((factors[0], spreads[0]))


def test_where_no_hyperparameter_matters_the_guess_is_the_mean_with_the_spread_of_the_data() -> None:
    rng = random.Random(1)
    seen = [network(rng) for _ in range(40)]
    factors = np.exp([rng.gauss(0, 0.3) for _ in seen])
    factors /= factors.mean()
    model = fitted([speed(each, float(factor)) for each, factor in zip(seen, factors, strict=True)])
    guessed, spreads = model.predict_all([network(rng) for _ in range(200)])
    assert np.median(guessed) == pytest.approx(1.0, abs=0.1)
    assert np.median(spreads) == pytest.approx(factors.std(ddof=1), rel=0.25)


def test_an_unmeasured_category_is_taken_as_average_and_is_less_certain() -> None:
    measured = {"relu": 0.5, "gelu": 1.0, "tanh": 2.0}
    model = fitted([speed({"act": act, "lr": lr}, at) for act, at in measured.items() for lr in (0.1, 0.2)])
    known, new = model.predict({"act": "gelu", "lr": 0.1}), model.predict({"act": "swish", "lr": 0.1})
    assert known.factor == pytest.approx(1.0, rel=0.1)
    median = new.factor / math.sqrt(1 + new.spread**2)
    assert median == pytest.approx(1.0, rel=0.1)
    assert new.factor < 1.6
    assert new.spread > 2 * known.spread


def test_a_hyperparameter_that_some_configurations_do_not_have_is_a_category_of_its_own() -> None:
    plain = [speed({"optimizer": "sgd"}, 1.0), speed({"optimizer": "sgd", "layers": 0}, 1.0)]
    more = [speed({"optimizer": "adam", "layers": layers}, layers / 4) for layers in (2, 4, 8, 16)] * 2
    model = fitted(plain + more)
    assert model.predict({"optimizer": "adam", "layers": 8}).factor == pytest.approx(2.0, rel=0.3)
    assert model.predict({"optimizer": "sgd"}).factor == pytest.approx(1.0, rel=0.3)


def test_a_value_far_from_all_measured_ones_is_less_certain() -> None:
    rng = random.Random(3)
    speeds = [speed({"width": w}, w / 100 * math.exp(rng.gauss(0, 0.1))) for w in (64, 80, 100, 130, 160)]
    model = fitted(speeds)
    assert model.predict({"width": 2000}).spread > 1.5 * model.predict({"width": 100}).spread


def test_no_less_is_claimed_unknown_than_leaving_one_out_shows() -> None:
    """A law that is not linear on any scale: the middle is slow."""
    factors = {16: 0.3, 32: 2.5, 64: 0.4, 128: 2.2, 256: 0.35, 512: 2.0}
    speeds = [speed({"width": width}, factor) for width, factor in factors.items()]
    errors = []
    for left in range(len(speeds)):
        guess = fitted(speeds[:left] + speeds[left + 1 :]).predict(speeds[left].config)
        errors.append(math.log(speeds[left].factor / guess.factor * math.sqrt(1 + guess.spread**2)))
    shown = math.sqrt(math.fsum(error**2 for error in errors) / len(errors))
    _, spreads = fitted(speeds).predict_all([each.config for each in speeds])
    assert np.sqrt(np.log1p(np.square(spreads))).mean() > 0.8 * shown


def test_longer_measurements_count_more() -> None:
    def guess(weight: float) -> float:
        speeds = [speed({"act": "relu"}, 2.0, weight), speed({"act": "relu", "x": 1}, 1.0, 1.0)] * 4
        return fitted(speeds).predict({"act": "relu", "y": 1}).factor

    assert guess(100.0) > guess(1.0)


def test_one_configuration_says_nothing_about_others() -> None:
    assert fit_speeds([]) is None
    assert fit_speeds([speed({"width": 64}, 1.0), speed({"width": 64}, 1.1)]) is None
