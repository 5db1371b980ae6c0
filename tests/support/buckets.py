"""Servers for tests that speak the protocols of S3 (moto's) and of Google Cloud Storage, each in a
thread of this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Protocol
from unittest.mock import patch

import httpx


class Buckets(Protocol):
    """What a test does to a bucket behind the back of what it tests."""

    scheme: str
    environment: dict[str, str]
    """What a process needs to reach it."""

    def put(self, url: str, content: bytes | None) -> None:
        """Replace an object; None deletes it."""

    def get(self, url: str) -> bytes: ...

    def keys(self, url: str) -> list[str]:
        """URLs of all objects below one; at most 1,000."""


class S3Buckets(Buckets):
    scheme = "s3"

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self._client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )

    def create(self, name: str) -> None:
        self._client.create_bucket(Bucket=name)

    def put(self, url: str, content: bytes | None) -> None:
        bucket, key = _split(url)
        if content is None:
            self._client.delete_object(Bucket=bucket, Key=key)
        else:
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def get(self, url: str) -> bytes:
        bucket, key = _split(url)
        return bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def keys(self, url: str) -> list[str]:
        bucket, prefix = _split(url)
        answer = self._client.list_objects_v2(Bucket=bucket, Prefix=prefix)
        return [f"s3://{bucket}/{entry['Key']}" for entry in answer.get("Contents", [])]

    def close(self) -> None:
        self._client.close()


class GoogleBuckets(Buckets):
    scheme = "gs"

    def __init__(self, endpoint: str) -> None:
        self.environment = {
            "STORAGE_EMULATOR_HOST": endpoint,
            # Else it asks for the kind of each bucket by gRPC, with the credentials of the machine.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "NO_GCE_CHECK": "true",
        }
        with patch.dict(os.environ, self.environment):
            import gcsfs
        self._client = gcsfs.GCSFileSystem(
            endpoint_url=endpoint,
            token="anon",
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def create(self, name: str) -> None:
        self._client.mkdir(name)

    def put(self, url: str, content: bytes | None) -> None:
        if content is None:
            self._client.rm_file(url)
        else:
            self._client.pipe_file(url, content)

    def get(self, url: str) -> bytes:
        return bytes(self._client.cat_file(url))

    def keys(self, url: str) -> list[str]:
        return [f"gs://{path}" for path in self._client.find(url)]

    def close(self) -> None:
        self._client.clear_instance_cache()  # all keep the address of the server


def _split(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


@contextlib.contextmanager
def buckets(*names: str) -> Iterator[Buckets]:
    """An S3 server with these buckets, and its address and credentials in this process's environment."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        # All servers of a process share their objects, so those of an earlier test are deleted.
        httpx.post(f"http://{host}:{port}/moto-api/reset").raise_for_status()
        with contextlib.closing(S3Buckets(f"http://{host}:{port}")) as found:
            for name in names:
                found.create(name)
            with patch.dict(os.environ, found.environment):
                yield found
    finally:
        server.stop()


@contextlib.contextmanager
def google_buckets(*names: str) -> Iterator[Buckets]:
    """The same of Google Cloud Storage. It takes whoever comes, without credentials."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    server._api.is_running.wait()
    host, port = server._api._httpd.server_address
    found = GoogleBuckets(f"http://{host}:{port}")
    try:
        for name in names:
            found.create(name)
        with patch.dict(os.environ, found.environment):
            yield found
    finally:
        found.close()
        server.stop()
