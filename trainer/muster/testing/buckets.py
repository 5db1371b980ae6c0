"""A real S3 server for tests: moto's, in a thread of this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from unittest.mock import patch


class Buckets:
    """What a test does to a bucket behind the back of what it tests."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        """What a process needs to reach it."""
        self._client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - any will do
            region_name="us-east-1",
        )

    def create(self, name: str) -> None:
        self._client.create_bucket(Bucket=name)

    def put(self, url: str, content: bytes | None) -> None:
        """Replace an object; None deletes it."""
        bucket, key = _split(url)
        if content is None:
            self._client.delete_object(Bucket=bucket, Key=key)
        else:
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def get(self, url: str) -> bytes:
        bucket, key = _split(url)
        return bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def keys(self, url: str) -> list[str]:
        """URLs of all objects below one; at most 1,000."""
        bucket, prefix = _split(url)
        answer = self._client.list_objects_v2(Bucket=bucket, Prefix=prefix)
        return [f"s3://{bucket}/{entry['Key']}" for entry in answer.get("Contents", [])]

    def close(self) -> None:
        self._client.close()


def _split(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


@contextlib.contextmanager
def buckets(*names: str) -> Iterator[Buckets]:
    """A server with these buckets, and its address and credentials in this process's environment."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with contextlib.closing(Buckets(f"http://{host}:{port}")) as found:
            for name in names:
                found.create(name)
            with patch.dict(os.environ, found.environment):
                yield found
    finally:
        server.stop()
