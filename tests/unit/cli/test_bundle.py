"""The archive of an experiment's code: what goes in, always the same bytes, clear refusals."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from muster.code.bundle import BundleError, make_bundle


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(folder: Path) -> list[str]:
    bundle = make_bundle(folder)
    try:
        with tarfile.open(bundle.path) as tar:
            return tar.getnames()
    finally:
        bundle.remove()


def digest(folder: Path) -> str:
    bundle = make_bundle(folder)
    bundle.remove()
    return bundle.sha256


def test_same_files_give_the_same_digest_whatever_their_times_and_order(tmp_path: Path) -> None:
    one = write(tmp_path / "one", **{"b.py": "2", "a.py": "1"})
    two = write(tmp_path / "two", **{"a.py": "1", "b.py": "2"})
    os.utime(two / "a.py", (1, 1))
    assert digest(one) == digest(two)
    (two / "a.py").write_text("3")
    assert digest(one) != digest(two)


def test_an_executable_bit_is_kept_and_owners_are_not(tmp_path: Path) -> None:
    folder = write(tmp_path, **{"run.sh": "x", "a.py": "1"})
    (folder / "run.sh").chmod(0o700)
    bundle = make_bundle(folder)
    with tarfile.open(bundle.path) as tar:
        modes = {m.name: (m.mode, m.uid, m.mtime) for m in tar.getmembers()}
    bundle.remove()
    assert modes == {"a.py": (0o644, 0, 0), "run.sh": (0o755, 0, 0)}


def test_ignore_files_count_from_their_own_folder_and_the_innermost_wins(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "train.py": "",
            "data.bin": "",
            "top.log": "",
            ".gitignore": "*.bin\n/top.log\nout/\n",
            "out__x.txt": "",
            "sub__deep.bin": "",
            "sub__keep.bin": "",
            "sub__top.log": "",
            "sub__.gitignore": "!keep.bin\n",
        },
    )
    assert names(tmp_path) == [
        ".gitignore", "sub/.gitignore", "sub/keep.bin", "sub/top.log", "train.py",
    ]  # fmt: skip


def test_musterignore_replaces_gitignore(tmp_path: Path) -> None:
    write(tmp_path, **{"a.py": "", "b.bin": "", ".gitignore": "*.bin\n", ".musterignore": "a.py\n"})
    assert names(tmp_path) == [".gitignore", ".musterignore", "b.bin"]


def test_version_control_and_caches_are_never_sent(tmp_path: Path) -> None:
    write(tmp_path, **{"a.py": "", ".git__config": "", "__pycache____a.pyc": "", ".venv__x": ""})
    (tmp_path / "p" / "__pycache__").mkdir(parents=True)
    (tmp_path / "p" / "__pycache__" / "x.pyc").write_text("")
    assert names(tmp_path) == ["a.py"]


@pytest.mark.parametrize("what", ["missing", "file", "empty"])
def test_no_folder_to_send_is_one_sentence(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "code"
    if what == "file":
        folder.write_text("")
    elif what == "empty":
        folder.mkdir()
    with pytest.raises(BundleError) as caught:
        make_bundle(folder)
    assert str(folder) in caught.value.message
    assert caught.value.message.count(".") >= 1


def test_too_large_names_the_largest_files_and_leaves_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(os.urandom(300_000))
    (folder / "a.py").write_text("x")
    with pytest.raises(BundleError) as caught:
        make_bundle(folder, max_bytes=100_000)
    assert "weights.bin" in caught.value.message
    assert ".musterignore" in caught.value.hint
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_a_copy(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", **{"a.py": "1"})
    (folder / "b.py").symlink_to(folder / "a.py")
    assert names(folder) == ["a.py", "b.py"]
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(BundleError, match="secret is a link"):
        make_bundle(folder)
