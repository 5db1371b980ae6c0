"""Whether two folders hold the same code."""

from __future__ import annotations

from pathlib import Path

from muster_agent.shim.preparation.code_hash import hash_code


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_same_files_whatever_else_lies_around(tmp_path: Path) -> None:
    one = write(tmp_path / "one", **{"train.py": "a", "lib__model.py": "b"})
    two = write(tmp_path / "two", **{"lib__model.py": "b", "train.py": "a"})
    write(two / ".git", HEAD="x")
    write(two / "__pycache__", **{"train.pyc": "x"})
    write(two, **{"lib__old.pyc": "x", ".hidden": "x"})
    assert hash_code(one) == hash_code(two)
    assert len(hash_code(one)) == 64


def test_a_changed_moved_or_added_file_is_told(tmp_path: Path) -> None:
    known = hash_code(write(tmp_path / "one", **{"a.py": "1", "b.py": "2"}))
    assert hash_code(write(tmp_path / "two", **{"a.py": "1", "b.py": "3"})) != known
    assert hash_code(write(tmp_path / "three", **{"a.py": "2", "b.py": "1"})) != known
    assert hash_code(write(tmp_path / "four", **{"a.py": "1", "b.py": "2", "c.py": ""})) != known


def test_what_is_too_much_or_cannot_be_read_is_not_compared(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", **{"a.py": "12", "b.py": "34"})
    assert hash_code(folder, max_files=1) == ""
    assert hash_code(folder, max_total_bytes=3) == ""
    assert hash_code(folder, max_files=2, max_total_bytes=4) != ""
    assert hash_code(tmp_path / "nothing") == hash_code(tmp_path / "nothing")
