"""Which folder `muster submit` sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.code.folder import CodeFolder, code_folder


@pytest.mark.parametrize(
    ("document", "overrides", "expected"),
    [
        ("code: {path: src}", [], "src"),
        ("entrypoint: train.py", [], "."),
        ("entrypoint: train.py\ncode: {path: src}", ["code.path=other"], "other"),
        ("entrypoint: [train.py, --x]", [], "."),
        ("entrypoint: /opt/train.py", [], None),
        ("entrypoint: /bin/bash run.sh", [], "."),
        ("entrypoint: bash /opt/run.sh", [], None),
        ("entrypoint: bash 'run.sh", [], "."),
        ("entrypoint: train.py\ncode: {installed: /opt}", [], None),
        ("entrypoint: train.py", ["code.installed=/opt"], None),
        ("trainer: {model: mlp, data: digits}", [], None),
        ("trainer: {model: mlp}", ["entrypoint=train.py"], "."),
        ("a: [", [], None),
        ("- 1", [], None),
        ("", [], None),
    ],
)
def test_the_folder(
    tmp_path: Path, document: str, overrides: list[str], expected: str | None
) -> None:
    found = code_folder(tmp_path, document, overrides)
    path = None if expected is None else (tmp_path / expected).resolve()
    assert found == (None if path is None else CodeFolder(path=path))


@pytest.mark.parametrize(
    ("document", "overrides"),
    [
        ("entrypoint: train.py\ncode: {include: [data/x.bin]}", []),
        ("entrypoint: train.py", ["code.include=[data/x.bin]"]),
        ("entrypoint: train.py", ["code.include=data/x.bin"]),
        ("entrypoint: train.py", ["code={include: [data/x.bin]}"]),
    ],
)
def test_ignored_files_to_send_all_the_same(
    tmp_path: Path, document: str, overrides: list[str]
) -> None:
    found = code_folder(tmp_path, document, overrides)
    assert found == CodeFolder(path=tmp_path.resolve(), include=("data/x.bin",))
