"""Random numbers belong to the workload and the seed, not to the plan."""

from __future__ import annotations

import numpy as np
import pytest

from elastune.model.cluster import ClusterTerms
from elastune.model.distributions import Constant, LogNormal
from elastune.model.profile import Profile, Speedup
from elastune.model.stages import Stage
from elastune.planning.prediction.draws import Draws
from elastune.planning.prediction.plan import Workload

NOISY = Workload(
    stages=(Stage(trials=3, iterations=2), Stage(trials=1, iterations=5)),
    profile=Profile(iteration=LogNormal(10.0, 3.0), speedup=Speedup.of({}), spread=0.2),
    cluster=ClusterTerms(slots_per_node=1, max_nodes=8, price_per_hour=1.0, init=LogNormal(30.0, 10.0)),
)


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
    first, again, other = (Draws(NOISY, samples=600, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.train(0, 1).work_s, again.train(0, 1).work_s)
    assert not np.array_equal(first.train(0, 1).work_s, other.train(0, 1).work_s)


def test_stages_blocks_and_streams_are_independent() -> None:
    draws = Draws(NOISY, samples=1024, seed=1)
    other = Draws(NOISY, samples=1024, seed=1, stream=1)
    seen = [draws.train(0, 0), draws.train(0, 1), draws.train(1, 0), other.train(0, 0)]
    assert len({float(block.work_s[0, 0]) for block in seen}) == 4


def test_more_samples_extend_the_first_ones() -> None:
    few, many = (Draws(NOISY, samples=count, seed=1) for count in (512, 2048))
    assert np.array_equal(few.train(0, 0).work_s, many.train(0, 0).work_s)
    assert many.blocks(0)[-1] == slice(1536, 2048)


def test_one_sample_suffices_when_nothing_is_random() -> None:
    calm = Workload(
        stages=NOISY.stages,
        profile=Profile(iteration=Constant(10.0), speedup=Speedup.of({})),
        cluster=ClusterTerms(slots_per_node=1, max_nodes=8, price_per_hour=1.0),
    )
    draws = Draws(calm, samples=4096, seed=1)
    assert draws.samples == 1
    assert draws.train(1, 0).durations(2.0).tolist() == [[25.0]]


def test_the_slowest_node_is_the_first_of_the_nodes_and_slower_with_more_of_them() -> None:
    draws = Draws(NOISY, samples=4000, seed=1)
    for nodes in (1, 2, 7):
        inits = draws.inits_s(0, nodes)
        assert inits[0] == pytest.approx(draws.slowest_init_s(0, nodes), rel=1e-12)
        assert np.array_equal(inits, np.sort(inits, axis=0)[::-1])
    assert (draws.slowest_init_s(0, 7) >= draws.slowest_init_s(0, 2)).all()


def test_nodes_drawn_slowest_first_have_the_law_of_independent_nodes() -> None:
    inits = Draws(NOISY, samples=40_000, seed=3).inits_s(0, 5)
    direct = np.sort(LogNormal(30.0, 10.0).draw(np.random.default_rng(9), (5, 40_000)), axis=0)[::-1]
    assert inits.mean(axis=1) == pytest.approx(direct.mean(axis=1), rel=0.01)
    assert inits.std(axis=1) == pytest.approx(direct.std(axis=1), rel=0.05)
