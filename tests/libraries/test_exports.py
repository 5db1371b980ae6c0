"""The Hugging Face folder of a gpt, used with transformers itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import muster

SCRIPT = Path(__file__).with_name("scripts") / "read_gpt2.py"


def test_transformers_loads_it_and_writes_the_same_text(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    environ |= {
        "PYTHONPATH": os.pathsep.join(
            [str(Path(muster.__file__).parents[1]), os.environ["MUSTER_LIBRARIES"]]
        ),
        "HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
