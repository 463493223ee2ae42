"""A model on a table: it finds good rows sooner than chance, and gives no row twice."""

from __future__ import annotations

import numpy as np

from elastune.model.configuration import Configuration
from elastune.model.metric import Mode
from elastune.space.given_configurations import TableSampler
from elastune.space.table_model_sampler import TableModelSampler

_RNG = np.random.default_rng(0)
ROWS: list[Configuration] = [
    {"lr": float(10 ** _RNG.uniform(-4, 0)), "depth": int(_RNG.integers(1, 9)), "kind": str(kind), "seed": 1}
    for kind in _RNG.choice(["a", "b", "c"], 300)
]


def loss(row: Configuration) -> float:
    """Least at a learning rate of 0.01, with any depth, of kind b."""
    lr, kind = row["lr"], row["kind"]
    assert isinstance(lr, float)
    return float(abs(np.log10(lr) + 2.0)) + (kind != "b")


def drawn(sampler: TableSampler | TableModelSampler, trials: int) -> list[Configuration]:
    found = []
    for trial in range(trials):
        row = sampler.ask(trial)
        assert row is not None
        sampler.tell(trial, 1, loss(row))
        found.append(row)
    return found


def test_it_draws_better_rows_than_chance() -> None:
    learnt = [loss(row) for row in drawn(TableModelSampler(ROWS, seed=1, mode=Mode.MIN), 60)[20:]]
    chance = [loss(row) for row in drawn(TableSampler(ROWS, seed=1), 60)[20:]]
    assert np.mean(learnt) < 0.7 * np.mean(chance)


def test_it_learns_from_the_few_that_reached_a_higher_rung() -> None:
    sampler = TableModelSampler(ROWS, seed=3, mode=Mode.MIN)
    for trial, row in enumerate(ROWS[:60]):
        sampler.complete(trial, row)
        sampler.tell(trial, 1, 10.0 + loss(row))
    for trial in sorted(range(60), key=lambda each: loss(ROWS[each]))[:15]:
        sampler.tell(trial, 4, loss(ROWS[trial]))
    learnt = [loss(row) for row in (sampler.ask(trial) for trial in range(60, 80)) if row is not None]
    assert np.mean(learnt) < 0.5 * np.mean([loss(row) for row in ROWS])


def test_it_begins_with_the_rows_of_a_sampler_that_does_not_learn() -> None:
    sampler, plain = TableModelSampler(ROWS, seed=4, mode=Mode.MIN, startup=7), TableSampler(ROWS, seed=4)
    assert drawn(sampler, 7) == drawn(plain, 7)


def test_a_row_that_a_trial_has_is_not_drawn_again() -> None:
    rows = ROWS[:30]
    resumed = TableModelSampler(rows, seed=2, mode=Mode.MIN, startup=3)
    for trial, row in enumerate(rows[:10]):
        assert resumed.complete(trial, row) == row
        resumed.tell(trial, 1, loss(row))
    rest = [resumed.ask(trial) for trial in range(10, 30)]
    assert sorted(map(repr, rest)) == sorted(map(repr, rows[10:]))
    assert resumed.ask(30) is None


def test_with_replacement_rows_are_drawn_again_once_all_have_been() -> None:
    rows = ROWS[:30]
    endless = TableModelSampler(rows, seed=2, mode=Mode.MIN, startup=3, replace=True)
    assert endless.size is None
    given = drawn(endless, 60)
    for half in (given[:30], given[30:]):
        assert sorted(map(repr, half)) == sorted(map(repr, rows))


def test_a_table_of_one_row_needs_no_model() -> None:
    sampler = TableModelSampler([{"lr": 0.1}], seed=0, mode=Mode.MAX, startup=1)
    assert sampler.ask(0) == {"lr": 0.1}
    sampler.tell(0, 1, 0.5)
    assert sampler.ask(1) is None
