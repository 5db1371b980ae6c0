"""A container registry on the loopback interface: what a pull uses of the distribution protocol."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KIND = "application/vnd.oci.image."


class Registry:
    """Serves the images that are pushed to it while the block of `serving` runs."""

    def __init__(self) -> None:
        self.address, self.login = "", ""
        """`login` is the `user:password` that every request needs; "" for none."""
        self.blobs: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.paths: list[str] = []
        self.is_tampered = False
        """Whether manifests arrive with another content than their digest says."""
        self.go_on, self.is_slow = threading.Event(), threading.Event()
        """Layers stop in the middle, and set `is_slow`, while `go_on` is not set."""
        self.go_on.set()

    def push(self, name: str, tag: str, *, content: bytes = b"") -> str:
        """Make an image with one file, `hello`; return its digest."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            file = tarfile.TarInfo("hello")
            file.size = len(content)
            tar.addfile(file, io.BytesIO(content))
        plain = archive.getvalue()
        rootfs = {"type": "layers", "diff_ids": [_digest(plain)]}
        config = {"architecture": "amd64", "os": "linux", "rootfs": rootfs, "config": {}}
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{KIND}manifest.v1+json",
            "config": self._add("config.v1+json", json.dumps(config).encode()),
            "layers": [self._add("layer.v1.tar+gzip", gzip.compress(plain, 0, mtime=0))],
        }
        self.tags[f"{name}:{tag}"] = self._add("", json.dumps(manifest).encode())["digest"]
        return self.tags[f"{name}:{tag}"]

    def _add(self, kind: str, content: bytes) -> dict[str, Any]:
        self.blobs[_digest(content)] = content
        return {"mediaType": KIND + kind, "digest": _digest(content), "size": len(content)}

    @contextmanager
    def serving(self) -> Iterator[Registry]:
        """Serve on a free port while the block runs."""
        handler = type("Handler", (_Handler,), {"registry": self})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            self.address = f"127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, args=(0.05,)).start()
            try:
                yield self
            finally:
                self.go_on.set()
                server.shutdown()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        registry = self.registry
        registry.paths.append(self.path)
        wanted = f"Basic {base64.b64encode(registry.login.encode()).decode()}"
        if registry.login and self.headers.get("Authorization") != wanted:
            return self._refuse(401, "unauthorized")
        if self.path == "/v2/":
            return self._answer(200, b"{}", "application/json")
        name, kind, digest = self.path.removeprefix("/v2/").rsplit("/", 2)
        if kind == "manifests":
            digest = registry.tags.get(f"{name}:{digest}", digest)
        content = registry.blobs.get(digest)
        if content is None:
            return self._refuse(404, "manifest unknown" if kind == "manifests" else "blob unknown")
        if kind == "manifests":
            content += b" " if registry.is_tampered else b""
        return self._answer(200, content, f"{KIND}manifest.v1+json", digest)

    do_HEAD = do_GET

    def _refuse(self, status: int, words: str) -> None:
        error = {"code": words.upper().replace(" ", "_"), "message": words}
        self._answer(status, json.dumps({"errors": [error]}).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str, digest: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
        self.end_headers()
        half = len(body) // 2 if "/blobs/" in self.path and len(body) > 4096 else 0
        if self.command != "HEAD":
            self.wfile.write(body[:half])
            if half and not self.registry.go_on.is_set():
                self.registry.is_slow.set()
                self.registry.go_on.wait(120)
            self.wfile.write(body[half:])

    def log_message(self, *_: object) -> None:
        """Keep the output of tests quiet."""
