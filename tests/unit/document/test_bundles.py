"""Whether an uploaded bundle holds the entry point."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import Any

import pytest

from muster_server.services.documents import bundles
from muster_server.services.documents.bundles import check_entry_file


def bundle(*names: str, size: int = 10) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(b"x" * size))
    return buffer.getvalue()


def chunked(data: bytes, size: int = 100) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def config(*entrypoint: str) -> dict[str, Any]:
    return {"entrypoint": list(entrypoint)}


@pytest.mark.parametrize("name", ["train.py", "./train.py"])
def test_the_file_is_found(name: str) -> None:
    data = bundle("a.py", name, "z.py", size=5000)
    assert check_entry_file(config("train.py"), chunked(data)) is None
    assert check_entry_file(config("./train.py"), chunked(data)) is None


def test_a_missing_file_is_named_with_near_names() -> None:
    problem = check_entry_file(config("trian.py"), chunked(bundle("train.py", "src/model.py")))
    assert problem is not None
    assert problem.path == "entrypoint"
    assert "'trian.py'" in problem.message
    assert "train.py" in (problem.hint or "")


def test_a_file_in_another_folder_is_suggested() -> None:
    problem = check_entry_file(config("train.py"), chunked(bundle("src/train.py", "other.py")))
    assert problem is not None
    assert "src/train.py" in (problem.hint or "")


def test_a_bundle_without_scripts_says_so() -> None:
    problem = check_entry_file(config("train.py"), chunked(bundle("readme.txt")))
    assert problem is not None
    assert "no .py file" in (problem.hint or "")


@pytest.mark.parametrize("entrypoint", [["-m", "pkg.train"], ["/opt/train.py"]])
def test_what_may_lie_elsewhere_is_not_judged(entrypoint: list[str]) -> None:
    assert check_entry_file(config(*entrypoint), chunked(bundle("a.py"))) is None
    assert check_entry_file({"entrypoint": None}, []) is None


@pytest.mark.parametrize("data", [b"", b"not a tar", gzip.compress(b"not a tar" * 100)])
def test_what_is_not_a_bundle_is_refused(data: bytes) -> None:
    problem = check_entry_file(config("train.py"), chunked(data))
    assert problem is not None
    assert problem.path in ("code", "entrypoint")


def test_a_cut_bundle_is_refused() -> None:
    data = bundle("a.py", size=100_000)
    problem = check_entry_file(config("train.py"), chunked(data[: len(data) // 2]))
    assert problem is not None


def test_a_bundle_that_unpacks_without_end_is_left_unjudged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bundles, "MAX_UNPACKED_BYTES", 1_000_000)
    data = bundle("zeros.bin", size=20_000_000)
    assert check_entry_file(config("train.py"), chunked(data)) is None
