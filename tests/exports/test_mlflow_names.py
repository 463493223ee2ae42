"""Names that MLflow would refuse, and addresses whose secrets must not be shown."""

from __future__ import annotations

import pytest

from elastune.exports.mlflow_writer import _key
from elastune.wording import without_secrets


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a//b", "a/b"),
        ("", "_"),
        ("/abs", "abs"),
        ("../up", "up"),
        ("a/./b", "a/b"),
        ("loss", "loss"),
        ("a#b", "a_b"),
    ],
)
def test_a_metric_gets_a_name_that_leads_somewhere(name: str, key: str) -> None:
    assert _key(name) == key


def test_addresses_lose_user_and_password() -> None:
    shown = without_secrets("API request to http://bob:hunter2@127.0.0.1:9/api failed")
    assert shown == "API request to http://127.0.0.1:9/api failed"
