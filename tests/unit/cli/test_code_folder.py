"""Which folder `muster submit` sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.experiments import code_folder


@pytest.mark.parametrize(
    ("document", "overrides", "expected"),
    [
        ("code: {path: src}", [], "src"),
        ("entrypoint: train.py", [], "."),
        ("entrypoint: train.py\ncode: {path: src}", ["code.path=other"], "other"),
        ("entrypoint: [train.py, --x]", [], "."),
        ("entrypoint: /opt/train.py", [], None),
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
    found = code_folder(str(tmp_path / "experiment.yaml"), document, overrides)
    assert found == (None if expected is None else (tmp_path / expected).resolve())
