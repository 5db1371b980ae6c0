"""The archive of an experiment's code: what goes in, always the same bytes, clear refusals."""

from __future__ import annotations

import os
import shutil
import socket
import tarfile
from pathlib import Path

import pytest

from muster.cli.sending import contents_text
from muster.code import bundle as bundles
from muster.code.bundle import BundleError, make_bundle, read_folder
from muster_agent.shim.preparation.bundle import extract_bundle


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


def test_an_unchanged_folder_keeps_its_digest_and_a_copy_with_its_times_has_the_same(
    tmp_path: Path,
) -> None:
    one = write(tmp_path / "one", **{"b.py": "2", "a.py": "1"})
    before = digest(one)
    shutil.copytree(one, tmp_path / "two")  # as cp -a and rsync -a do
    assert digest(one) == before == digest(tmp_path / "two")
    (one / "a.py").write_text("3")
    assert digest(one) != before


def test_times_are_those_of_the_folder_and_none_is_one_that_zip_cannot_hold(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "code", **{"run.sh": "x", "a.py": "1", "old": "", "late": ""})
    (folder / "run.sh").chmod(0o700)
    for name, seconds in {"a.py": 1_700_000_000, "old": 0, "late": 2**33, "run.sh": 1e9}.items():
        os.utime(folder / name, (seconds, seconds))
    bundle = make_bundle(folder)
    with tarfile.open(bundle.path) as tar:
        members = {m.name: (m.mode, m.uid, m.mtime) for m in tar.getmembers()}
    assert members["a.py"] == (0o644, 0, 1_700_000_000)
    assert members["run.sh"] == (0o755, 0, 1_000_000_000)
    extract_bundle(bundle.path, tmp_path / "node")
    bundle.remove()
    assert (tmp_path / "node/a.py").stat().st_mtime == 1_700_000_000
    shutil.make_archive(str(tmp_path / "snapshot"), "zip", tmp_path / "node")


def test_a_bundle_of_1970_gets_times_on_the_node_that_programs_can_pack(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("a.py"))
    extract_bundle(tmp_path / "b.tar.gz", tmp_path / "node")
    shutil.make_archive(str(tmp_path / "snapshot"), "zip", tmp_path / "node")


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


def test_a_link_inside_the_folder_is_a_link_on_the_node(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", **{"a.py": "1", "wandb__run-1__log": "2", "v2__x": "3"})
    (folder / "wandb/latest-run").symlink_to("run-1")
    (folder / "b.py").symlink_to(folder / "a.py")  # as an absolute path
    (folder / "data").symlink_to("current")
    (folder / "current").symlink_to("wandb/../v2")
    (folder / "here").symlink_to(".")
    bundle = make_bundle(folder)
    extract_bundle(bundle.path, tmp_path / "node")
    bundle.remove()
    links = {
        "wandb/latest-run": "run-1",
        "b.py": "a.py",
        "data": "v2",
        "current": "v2",
        "here": ".",
    }
    assert {name: str((tmp_path / "node" / name).readlink()) for name in links} == links
    assert (tmp_path / "node/wandb/latest-run/log").read_text() == "2"


def test_a_link_to_what_is_left_out_never_dangles_on_the_node(tmp_path: Path) -> None:
    files = {"a.py": "1", "cache__data.bin": "2", ".gitignore": "cache/\n"}
    folder = write(tmp_path, **files)
    (folder / "data.bin").symlink_to("cache/data.bin")
    (folder / "all").symlink_to("cache")
    contents = read_folder(folder)
    assert [(f.name, f.link) for f in contents.files if "data" in f.name] == [("data.bin", "")]
    assert contents.unsent == {"dangling link": ["all"]}


def test_all_that_cannot_be_sent_is_named_at_once(tmp_path: Path) -> None:
    folder = write(tmp_path, **{"a.py": "1"})
    (folder / "secret").symlink_to("/etc/passwd")
    (folder / "sub").mkdir()
    (folder / "sub/tools").symlink_to("/usr/bin")
    with pytest.raises(BundleError) as caught:
        make_bundle(folder)
    assert (
        "secret is a link to /etc/passwd, outside of the folder; "
        f"sub/tools is a link to {Path('/usr/bin').resolve()}, outside of the folder."
    ) in caught.value.message


def test_what_no_node_can_use_is_left_out_and_counted_in_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path, **{"a.py": "1", "my-env__pyvenv.cfg": "", "my-env__bin__python": ""})
    write(folder, **{"conda__conda-meta__history": "", ".a.py.swp": "x"})
    (folder / ".#train.py").symlink_to("me@host.1234:1700000000")
    (folder / "loop").symlink_to("loop")
    (folder / "gone.bin").symlink_to("/nowhere/at/all")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s.sock"))
        contents = read_folder(folder)
    assert contents_text(contents) == [
        "Code: a.py (1 B).",
        "Not sent: 2 editor lock files (.#train.py, .a.py.swp), 2 virtual environments (conda, my-env), "
        "2 dangling links (gone.bin, loop), 2 special files (pipe, s.sock).",
    ]


def test_the_file_git_of_a_worktree_is_not_sent(tmp_path: Path) -> None:
    write(tmp_path, **{"a.py": "", ".git": "gitdir: /home/me/project/.git/worktrees/w\n"})
    write(tmp_path, **{"library__b.py": "", "library__.git": "gitdir: ../.git/modules/library\n"})
    assert names(tmp_path) == ["a.py", "library/b.py"]


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
