"""The largest partition is as small as neighbouring files allow, against all possible cuts."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from elastune.data.dataset import group


@given(st.lists(st.integers(1, 20), min_size=1, max_size=9), st.data())
def test_no_cut_has_a_smaller_largest_group(sizes: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(sizes)))
    groups = group(sizes, count)
    assert [index for each in groups for index in each] == list(range(len(sizes)))
    assert len(groups) == count
    assert all(groups)
    cuts = ((0, *inner, len(sizes)) for inner in combinations(range(1, len(sizes)), count - 1))
    best = min(max(sum(sizes[a:b]) for a, b in pairwise(cut)) for cut in cuts)
    assert max(sum(sizes[index] for index in each) for each in groups) == best


def test_files_alike_make_groups_alike() -> None:
    for files in range(1, 30):
        for count in range(1, files + 1):
            lengths = {len(each) for each in group([7] * files, count)}
            assert max(lengths) - min(lengths) <= 1


def test_files_of_unknown_size_can_be_a_partition_each() -> None:
    assert group([0, 0, 5], 3) == [range(1), range(1, 2), range(2, 3)]
