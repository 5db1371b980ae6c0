"""List the layers of a model for the planner. Run by the agent, in a process of its own.

    python -m muster.training.describe REQUEST RESULT

REQUEST is a file with {"settings": {…}}, fields of TrainConfig; the current folder holds the code of
one's own that they name. RESULT gets {"outcome": …, "table": …, "message": …}, see
wire.DescriptionResult. Time, memory and files of the process are bounded.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from muster import wire
from muster.document.train_config import ConfigError, TrainConfig
from muster.document.trainer_settings import OWN_FUNCTION

MEMORY_BYTES = 2 * 2**30
"""What the process may take beside what importing torch takes."""
FILE_BYTES = 64 * 2**20
NICENESS = 10


def main() -> int:
    request, result = (Path(argument) for argument in sys.argv[1:3])
    config = TrainConfig(**json.loads(request.read_text())["settings"])
    text = wire.dump(_answer(config))
    temporary = result.with_name(f".{result.name}")
    temporary.write_text(text)
    temporary.replace(result)
    return 0


def _answer(config: TrainConfig) -> dict[str, Any]:
    try:
        from muster.training.layer_table import layer_table
    except ImportError as error:
        return {"outcome": "failed", "message": f"{sys.executable} cannot import torch: {error}"}
    _set_limits()
    try:
        table = layer_table(config)
    except ConfigError as error:
        return {"outcome": "refused", "message": str(error)}
    except MemoryError:
        message = f"building it takes more than {MEMORY_BYTES >> 30} GiB of memory"
        return {"outcome": "refused", "message": message}
    except (Exception, SystemExit) as error:
        return {"outcome": "refused", "message": f"{_own_name(config)} raised {_told(error)}"}
    return {"outcome": "done", "table": json.loads(wire.dump(table))}


def _own_name(config: TrainConfig) -> str:
    names = [n for n in (config.data, config.model) if OWN_FUNCTION.fullmatch(n)]
    return " or ".join(names) or config.model


def _told(error: BaseException) -> str:
    """Kind, first line and place of what the user's code raised."""
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    here = str(Path.cwd())
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(here)]
    return f"{said} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else said


def _set_limits() -> None:
    os.nice(NICENESS)
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    seconds = int(wire.DESCRIPTION_TIMEOUT_S)
    for kind, most in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (allowed, allowed))


if __name__ == "__main__":
    sys.exit(main())
