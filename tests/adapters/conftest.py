from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def keras_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keras writes its settings to the user's home folder when it is imported, unless there is another."""
    os.environ.setdefault("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
