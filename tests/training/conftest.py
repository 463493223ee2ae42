from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.training.gangs import Crew


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.close()
