"""AWS as far as moto knows it, on this machine: no account, no network, nothing to pay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

IMAGE = "ami-12c6146b"
"""One that moto knows; a list of them takes seconds."""


@contextlib.contextmanager
def models_read_once() -> Iterator[None]:
    """botocore reads megabytes of JSON for every client; here once in a process."""
    loader = pytest.importorskip("botocore.loaders").JSONFileLoader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "load_file", _reading_once(loader.load_file))
        yield


_models: dict[str, Any] = {}


def _reading_once(load_file: Any) -> Any:
    def read(self: Any, path: str) -> Any:
        if path not in _models:
            _models[path] = load_file(self, path)
        return _models[path]

    return read


@contextlib.contextmanager
def served_aws(region: str = "us-east-1") -> Iterator[dict[str, str]]:
    """The environment in which boto3 and s3fs find it.

    All that are served in one process are one: what another test has left in this region is there.
    """
    server = pytest.importorskip("moto.server")
    serving = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    serving.start()
    host, port = serving.get_host_and_port()
    try:
        with models_read_once():
            yield _environment_for(f"http://{host}:{port}", region)
    finally:
        serving.stop()


def _environment_for(url: str, region: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "a-secret-that-nobody-may-see",
        "AWS_DEFAULT_REGION": region,
    }
