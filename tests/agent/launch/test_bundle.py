"""Uploaded archives are not trusted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from muster_agent.shim.preparation.bundle import ExtractionError, extract_bundle


def archive(path: Path, *members: tuple[str, dict[str, object]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            data = b"x" * int(str(fields.get("size", 0)))
            info.size = len(data)
            info.type = fields.get("type", tarfile.REGTYPE)  # type: ignore[assignment]
            info.linkname = str(fields.get("link", ""))
            info.mode = 0o4755
            tar.addfile(info, io.BytesIO(data))
    return path


def test_plain_bundle_is_unpacked_without_setuid_bits(tmp_path: Path) -> None:
    bundle = archive(
        tmp_path / "b.tar.gz",
        ("pkg", {"type": tarfile.DIRTYPE}),
        ("pkg/a.py", {"size": 3}),
        ("link.py", {"type": tarfile.SYMTYPE, "link": "pkg/a.py"}),
    )
    extract_bundle(bundle, tmp_path / "out")
    assert (tmp_path / "out/pkg/a.py").read_text() == "xxx"
    assert (tmp_path / "out/pkg/a.py").stat().st_mode & 0o7000 == 0
    assert (tmp_path / "out/link.py").read_text() == "xxx"


@pytest.mark.parametrize(
    "member",
    [
        ("../evil.py", {"size": 1}),
        ("a/../../evil.py", {"size": 1}),
        ("/etc/evil", {"size": 1}),
        ("link", {"type": tarfile.SYMTYPE, "link": "../../outside"}),
        ("link", {"type": tarfile.SYMTYPE, "link": "/etc/passwd"}),
        ("link", {"type": tarfile.LNKTYPE, "link": "../outside"}),
        ("device", {"type": tarfile.CHRTYPE}),
        ("pipe", {"type": tarfile.FIFOTYPE}),
        ("n" * 1_001, {"size": 1}),
    ],
)
def test_members_that_lead_out_or_are_no_files_are_refused(
    tmp_path: Path, member: tuple[str, dict[str, object]]
) -> None:
    bundle = archive(tmp_path / "b.tar.gz", member)
    with pytest.raises(ExtractionError, match="was refused"):
        extract_bundle(bundle, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("b.tar.gz", "out")] == []


def test_symlink_is_not_followed_to_write_elsewhere(tmp_path: Path) -> None:
    bundle = archive(
        tmp_path / "b.tar.gz",
        ("d", {"type": tarfile.SYMTYPE, "link": "/tmp"}),
        ("d/evil", {"size": 1}),
    )
    with pytest.raises(ExtractionError):
        extract_bundle(bundle, tmp_path / "out")


def test_bombs_are_refused_by_their_headers(tmp_path: Path) -> None:
    bundle = archive(tmp_path / "b.tar.gz", *((f"f{i}", {"size": 10}) for i in range(5)))
    with pytest.raises(ExtractionError, match="more than 4 files"):
        extract_bundle(bundle, tmp_path / "many", max_members=4)
    with pytest.raises(ExtractionError, match="more than 49 bytes"):
        extract_bundle(bundle, tmp_path / "large", max_bytes=49)


@pytest.mark.parametrize(
    "damage", [lambda d: b"no archive", lambda d: d[: len(d) // 2], lambda d: b""]
)
def test_damaged_archive_is_one_clear_sentence(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    bundle = archive(tmp_path / "b.tar.gz", ("a.py", {"size": 100_000}))
    bundle.write_bytes(damage(bundle.read_bytes()))
    with pytest.raises(ExtractionError, match=r"not a readable tar\.gz"):
        extract_bundle(bundle, tmp_path / "out")
