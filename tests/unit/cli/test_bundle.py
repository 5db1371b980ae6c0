"""The archive of an experiment's code: what goes in, always the same bytes, clear refusals."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from muster.cli.sending import contents_text
from muster.code import bundle as bundles
from muster.code.bundle import BundleError, make_bundle, read_folder


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(folder: Path, *include: str) -> list[str]:
    bundle = make_bundle(folder, include=include)
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


def test_what_is_sent_and_what_an_ignore_file_leaves_out_is_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "train.py": "x" * 300,
            "model.py": "x" * 1500,
            ".gitignore": "*.bin\n/out/\n",
            "data__train.bin": "x" * 2000,
            "out__1__a.ckpt": "x" * 3000,
            "out__b.ckpt": "x" * 1000,
            "sub__.musterignore": "notes.txt\n",
            "sub__notes.txt": "x",
            "sub__a.py": "",
        },
    )
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "train.pyc").write_text("x" * 9000)
    contents = read_folder(tmp_path)
    assert contents_text(contents) == [
        "Code: 5 files, 1.8 kB; the largest is model.py (1.5 kB).",
        "Left out by .gitignore: out/ (2 files, 4.0 kB), data/train.bin (2.0 kB). "
        "`code.include` sends what is needed.",
        "Left out by .musterignore: sub/notes.txt (1 B). `code.include` sends what is needed.",
    ]
    assert contents.left_out_names == ["out/", "data/train.bin", "sub/notes.txt"]


def test_many_left_out_files_are_counted_and_not_all_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **{"a.py": "", ".gitignore": "*.log\nlast/\n"})
    write(tmp_path, **{f"{n}.log": "x" * (n + 1) for n in range(8)})
    write(tmp_path / "last", **{str(n): "x" * 100 for n in range(5)})
    lines = contents_text(read_folder(tmp_path))
    assert lines[1].startswith("Left out by .gitignore: last/ (5 files, 500 B), 7.log (8 B), ")
    assert "4.log (5 B), 4 more (10 B)." in lines[1]
    monkeypatch.setattr(bundles, "COUNTED_MAX", 10)
    assert "last/ (2 files, at least 200 B)" in contents_text(read_folder(tmp_path))[1]


def test_ignored_files_are_sent_where_they_are_included(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "a.py": "",
            ".gitignore": "*.bin\ndata/\n",
            "top.bin": "",
            "data__tiny__train.bin": "1",
            "data__tiny__notes.txt": "",
            "data__large.bin": "22",
            "data____pycache____x.pyc": "",
        },
    )
    assert names(tmp_path, "data/tiny/") == [
        ".gitignore", "a.py", "data/tiny/notes.txt", "data/tiny/train.bin",
    ]  # fmt: skip
    assert names(tmp_path, "/*.bin") == [".gitignore", "a.py", "top.bin"]
    contents = read_folder(tmp_path, include=["data"])
    assert [file.name for file in contents.files if file.name.startswith("data")] == [
        "data/large.bin", "data/tiny/notes.txt", "data/tiny/train.bin",
    ]  # fmt: skip
    assert contents.left_out_names == ["top.bin"]


def test_limits_are_checked_before_anything_is_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("compressed")

    monkeypatch.setattr(bundles, "_add", refuse)
    (tmp_path / "weights.bin").write_bytes(os.urandom(1_200_000))
    (tmp_path / "a.py").write_text("x")
    with pytest.raises(BundleError, match=r"the largest: weights\.bin \(1\.2 MB\), a\.py"):
        make_bundle(tmp_path, max_bytes=500_000)
    with pytest.raises(AssertionError, match="compressed"):
        make_bundle(tmp_path, max_bytes=1_000_000)  # near the limit, packing decides
    write(tmp_path, **{f"images__{n}.png": "" for n in range(30)})
    monkeypatch.setattr(bundles, "FILES_MAX", 20)
    with pytest.raises(BundleError, match=r"holds 32 files, more than 20; most .* images \(30\)"):
        make_bundle(tmp_path)


def test_a_large_text_that_compresses_well_is_sent(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("step 1 loss 0.5\n" * 200_000)
    bundle = make_bundle(tmp_path, max_bytes=1_000_000)
    bundle.remove()
    assert bundle.contents.size_bytes > 3 * bundle.size_bytes
