"""AWS as far as moto knows it, on this machine: no account, no network, nothing to pay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest


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
        yield {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "a-secret-that-nobody-may-see",
            "AWS_DEFAULT_REGION": region,
        }
    finally:
        serving.stop()
