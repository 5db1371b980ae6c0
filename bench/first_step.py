"""Run a training script and note when its first optimizer step was done (part of launch.py).

    first_step.py FILE script.py [arguments]

Rank 0 writes the Unix time to FILE. The script itself knows nothing of it.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook


def main() -> None:
    out, script = Path(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    if os.environ.get("RANK", "0") == "0":

        def note(*_: Any) -> None:
            handle.remove()
            partial = out.with_suffix(".part")
            partial.write_text(repr(time.time()))
            partial.rename(out)

        handle = register_optimizer_step_post_hook(note)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
