"""Whether two workers share their work, seen in real gangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastune.checks.gangs import judge_gang
from elastune.checks.messages import ProbeOrder, ProbeSeen, RankSeen
from elastune.checks.phases import compare_ranks, train_alone, train_together
from elastune.checks.report import CheckFinding, CheckStatus
from elastune.training.groups import Group
from elastune.training.recipe import load
from elastune.training.sharing import Sharing, gang_limit
from tests.checks.looking import order_of, reference_to
from tests.training.gangs import Crew


@pytest.fixture(scope="module")
def pair() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.close()


def together(group: Group, order: ProbeOrder, shortened: bool) -> RankSeen:
    """On one rank."""
    return train_together(order, lambda: group, shortened=shortened, device="cpu", say=lambda _: None)


def judge(pair: Crew, name: str, folder: Path) -> tuple[Sharing, list[CheckFinding]]:
    order = order_of(name, folder)
    user: Any = load(reference_to(name))
    seen = ProbeSeen(solo=train_alone(order, lambda _: None))
    assert seen.solo is not None
    ranks = pair.run(2, together, order, "batches" in seen.solo.calls)
    seen.gang = compare_ranks(order, ranks)
    return judge_gang(seen, user, getattr(user, "most_slots", None), metric="accuracy")


def test_a_data_loader_of_the_worker_is_shared_and_teaches_what_one_worker_learns(
    pair: Crew, tmp_path: Path
) -> None:
    sharing, findings = judge(pair, "GangOfLoader", tmp_path)
    assert sharing is Sharing.SHOWN
    assert [each.status for each in findings] == [CheckStatus.FINE, CheckStatus.FINE]
    assert "two workers learn what one worker learns" in findings[1].text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OwnLoader", "two workers exchange nothing: each trains a model of its own"),
        ("SumsOnly", "two workers have different weights in self.model, which learns and is not wrapped"),
        ("WrapsOneOfTwo", "have different weights in self.head, which learns and is not wrapped"),
        ("SameData", "two workers train on the same data"),
        ("FailsTogether", "two workers fail: setup on two workers raised RuntimeError: this model"),
    ],
)
def test_workers_that_do_not_share_are_held_to_one_slot_and_told_how_to_get_more(
    pair: Crew, tmp_path: Path, name: str, text: str
) -> None:
    sharing, (finding,) = judge(pair, name, tmp_path)
    assert sharing is Sharing.NOT_SHOWN
    assert finding.status is CheckStatus.WARNING
    assert text in finding.text
    assert "every trial is held to one slot" in finding.text
    assert finding.remedy is not None
    assert "worker.wrap(model)" in finding.remedy
    assert "worker.loader" in finding.remedy


def test_a_gang_that_learns_at_another_rate_is_noted(pair: Crew, tmp_path: Path) -> None:
    sharing, findings = judge(pair, "MeanAsSum", tmp_path)
    assert sharing is Sharing.SHOWN
    assert findings[1].status is CheckStatus.NOTE
    assert "weights or gradients of two workers differ" in findings[1].text


def test_a_loss_that_is_not_weighted_by_the_samples_is_told(pair: Crew, tmp_path: Path) -> None:
    findings = judge(pair, "OwnBackward", tmp_path)[1]
    assert findings[-1].status is CheckStatus.WARNING
    assert "gives the share of each worker the same weight" in findings[-1].text
    assert findings[-1].remedy == "call worker.backward(loss) instead"
    assert findings[-1].place is not None


def test_a_metric_that_each_worker_has_of_its_share_is_told(pair: Crew, tmp_path: Path) -> None:
    sharing, findings = judge(pair, "MetricOfItsShare", tmp_path)
    assert sharing is Sharing.SHOWN
    assert findings[-1].status is CheckStatus.WARNING
    assert "two workers report different values of accuracy" in findings[-1].text
    assert findings[-1].place is not None
    assert findings[-1].place.code.startswith("return")


def test_one_worker_that_asks_for_nothing_of_its_gang_shows_enough(tmp_path: Path) -> None:
    """No gang is formed for a script that cannot share."""
    seen = ProbeSeen(solo=train_alone(order_of("OwnLoader", tmp_path), lambda _: None))
    sharing, (finding,) = judge_gang(seen, load(reference_to("OwnLoader")), None)
    assert sharing is Sharing.NOT_SHOWN
    assert "the workers of a gang would share nothing" in finding.text
    assert finding.place is not None
    assert finding.place.code == "functional.cross_entropy(scores, labels).backward()"


@pytest.mark.parametrize(
    ("declared", "sharing", "limit"),
    [
        (None, Sharing.SHOWN, None),
        (4, Sharing.SHOWN, 4),
        (None, Sharing.UNCHECKED, 1),
        (4, Sharing.UNCHECKED, 4),
        (None, Sharing.NOT_SHOWN, 1),
        (4, Sharing.NOT_SHOWN, 1),
        (1, Sharing.SHOWN, 1),
    ],
)
def test_a_gang_needs_a_proof_or_a_declaration_that_was_not_refuted(
    declared: int | None, sharing: Sharing, limit: int | None
) -> None:
    assert gang_limit(declared, sharing) == limit
