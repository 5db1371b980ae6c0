from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import muster

TRAINER = Path(muster.__file__).parents[1]


def bare(code: str) -> str:
    """Run code in an interpreter without site-packages and without the environment's help."""
    prelude = f"import sys; sys.path.insert(0, {str(TRAINER)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", prelude + code],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_works_with_the_standard_library_alone() -> None:
    out = bare(
        "import muster\n"
        "run = muster.init(hparams={'lr': 0.1})\n"
        "muster.log({'train/loss': 1.0}, step=1)\n"
        "print(muster.should_stop(), muster.hparams()['lr'], muster.rank_info().world_size)\n"
        "print(sorted(m for m in ('torch', 'numpy', 'yaml', 'httpx') if m in sys.modules))\n"
    )
    assert out.split("\n")[:2] == ["False 0.1 1", "[]"]


def test_import_takes_less_than_50_ms() -> None:
    code = "import time; t = time.perf_counter(); import muster; print((time.perf_counter() - t) * 1e3)"
    assert min(float(bare(code)) for _ in range(5)) < 50


def test_every_public_name_exists() -> None:
    for name in muster.__all__:
        if name != "backend":  # imports torch
            assert getattr(muster, name) is not None


def test_importing_the_wire_format_loads_nothing_else_of_the_sdk() -> None:
    out = bare(
        "import muster.wire; print(sorted(m for m in sys.modules if m.startswith('muster')))"
    )
    assert out.strip() == "['muster', 'muster.wire']"
