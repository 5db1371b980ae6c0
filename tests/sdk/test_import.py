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
    assert out.split("\n")[:2] == ["None 0.1 1", "[]"]


def test_import_loads_nothing_slow() -> None:
    """What costs a script its start: heavy parts of the standard library, and many modules."""
    out = bare(
        "before = set(sys.modules)\n"
        "import muster\n"
        "new = set(sys.modules) - before\n"
        "slow = {'asyncio', 'http.client', 'ssl', 'sqlite3', 'multiprocessing', 'email', 'unittest'}\n"
        "print(len(new), sorted(slow & new))\n"
    )
    num_modules, slow = out.split(maxsplit=1)
    assert slow.strip() == "[]"
    assert int(num_modules) < 60


def test_every_public_name_exists() -> None:
    for name in muster.__all__:
        if name != "backend":  # imports torch
            assert getattr(muster, name) is not None


def test_importing_the_wire_format_loads_nothing_else_of_the_sdk() -> None:
    out = bare(
        "import muster.wire; print(*(m for m in sys.modules if m.split('.')[0] == 'muster'))"
    )
    assert {name for name in out.split() if not name.startswith("muster.wire.")} == {
        "muster",
        "muster.numbers",
        "muster.wire",
    }


def test_the_client_of_a_command_loads_neither_messages_nor_asyncio() -> None:
    code = "import sys, muster.client; print({'asyncio', 'muster.wire'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
