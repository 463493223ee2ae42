"""A bucket that is like one of S3, on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.aws import served_aws

BUCKET = "elastune-tests"


@pytest.fixture(scope="session")
def aws() -> Iterator[dict[str, str]]:
    pytest.importorskip("s3fs")
    with served_aws() as environment:
        yield environment


@pytest.fixture
def bucket(aws: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its name. AWS is set up in the environment, as it would be on a node."""
    import boto3  # noqa: PLC0415
    import s3fs  # noqa: PLC0415

    for name, value in aws.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    yield BUCKET
    s3fs.S3FileSystem.clear_instance_cache()
