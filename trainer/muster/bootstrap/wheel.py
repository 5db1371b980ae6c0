"""A wheel of this very installation, so that a node gets the agent of the same version."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from muster import __version__

NAME = f"muster_train-{__version__}-py3-none-any.whl"
PACKAGES = ("muster", "muster_agent")
_SCRIPTS = "[console_scripts]\nmuster = muster.cli:main\nmuster-agent = muster_agent.cli:main\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel() -> bytes:
    """Return a wheel of the packages that a node needs, the same bytes for the same files. Works from
    an installed wheel and from a checkout. Raises LookupError if one is not installed."""
    info = f"muster_train-{__version__}.dist-info"
    files = dict(_sources())
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    files[f"{info}/entry_points.txt"] = _SCRIPTS.encode()
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date_time=(2000, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def _sources() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise LookupError(f"the package {package} is not installed here")
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                yield f"{package}/{path.relative_to(root).as_posix()}", path.read_bytes()


def _metadata() -> str:
    try:
        text = metadata.distribution("muster-train").read_text("METADATA")
    except metadata.PackageNotFoundError:
        text = None
    if text is None:
        raise LookupError("muster-train is not installed here, only its files are")
    head, separator, body = text.partition("\n\n")
    # The version of a checkout that was installed long ago is that of its files.
    lines = [
        f"Version: {__version__}" if line.startswith("Version:") else line
        for line in head.splitlines()
    ]
    return "\n".join(lines) + separator + body


def _digest(data: bytes) -> str:
    text = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    return f"sha256={text.rstrip('=')}"
