"""A slot that asks for GPUs gets them or is refused."""

from __future__ import annotations

import pytest

from elastune.errors import JobError
from elastune.training.devices import LOGICAL_GPUS, count_gpus, find_device


def test_a_slot_of_cpus_does_not_look_for_gpus() -> None:
    def fails() -> int:
        raise AssertionError("looked")

    assert find_device(0, count=fails) == "cpu"


def test_a_slot_of_gpus_trains_on_the_first_of_them() -> None:
    assert find_device(2, count=lambda: 2) == "cuda:0"


@pytest.mark.parametrize(
    ("asked", "found", "words"), [(1, 0, "1 GPU, but torch can use none"), (2, 1, "use 1")]
)
def test_a_slot_with_too_few_gpus_is_refused(asked: int, found: int, words: str) -> None:
    with pytest.raises(JobError, match=words):
        find_device(asked, count=lambda: found)


def test_logical_gpus_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGICAL_GPUS, "1")
    assert count_gpus() is None
    assert find_device(1) == "cpu"
