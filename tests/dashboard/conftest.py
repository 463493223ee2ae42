"""The recorded runs, made once, and a dashboard that shows them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.recorded import Recorded, record_all
from tests.dashboard.sites import Served, served


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_all(tmp_path_factory.mktemp("dashboard") / "elastune-runs")


@pytest.fixture(scope="session")
def dashboard(recorded: Recorded) -> Iterator[Served]:
    with served(recorded.root) as made:
        yield made
