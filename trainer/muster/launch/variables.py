"""`${NAME}` in the arguments and variables of a document, which a node replaces: no shell runs.

Only names that every job has are replaced, and that of a variable in its own value; other text with a
`$` stays as it is, since a regular expression or a price may contain one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMES = frozenset(
    {
        "HOME", "PATH", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "NPROC_PER_NODE",
        "MUSTER_ALLOCATION_ID", "MUSTER_ATTEMPT_NO", "MUSTER_CHECKPOINT_DIR",
        "MUSTER_CHECKPOINT_URL", "MUSTER_CHECKPOINT_LOCAL", "MUSTER_CONFIG_FILE",
        "MUSTER_EXPERIMENT_ID",
        "MUSTER_HOSTFILE", "MUSTER_NODE_RANK", "MUSTER_OUTPUT_DIR", "MUSTER_RESUME_FROM",
        "MUSTER_RESUME_STEP", "MUSTER_SKIP_SAMPLES", "MUSTER_TRIAL_ID", "MUSTER_TRIAL_NO", "MUSTER_WEIGHTS_FROM",
        "MUSTER_CODE_COMMIT", "MUSTER_WORK_DIR", "MUSTER_WORLD_SIZE",
    }
)  # fmt: skip
DATA_PREFIX = "MUSTER_DATA_"
MODEL_PREFIX = "MUSTER_MODEL_"
ROLE_VARIABLE = "MUSTER_ROLE"
NODE_ADDRESS_VARIABLE = "MUSTER_NODE_ADDRESS"
"""Address of the node, for jobs that answer requests."""
SESSION_DIR_VARIABLE = "MUSTER_SESSION_DIR"
"""Folder of a session's own, which nobody but the job reads and which is not kept: its port and secrets."""
PATH_VARIABLE = "MUSTER_PYTHONPATH"
"""Folders of Muster's own that a job's Python has on its path: that of the `sitecustomize` which measures
scripts, and that of the SDK."""
SITE_FILE = "muster.pth"
"""File beside the packages of Muster's environments, by which Python finds the first of them where a
script has replaced PYTHONPATH."""
SITE_LINE = (
    "import os, sys; "
    'p = os.environ.get("MUSTER_PYTHONPATH", "").partition(os.pathsep)[0]; '
    "p and p not in sys.path and sys.path.insert(0, p)\n"
)
"""Content of that file. The wheel brings a copy of its own; a container sees this package alone."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ANY = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def is_replaced(name: str) -> bool:
    """Return whether `${name}` stands for a value on the node."""
    return name in NAMES or name.startswith((DATA_PREFIX, MODEL_PREFIX, ROLE_VARIABLE))


def expand(text: str, values: Mapping[str, str], *, itself: str = "") -> str:
    """Return the text with the value of each `${NAME}` that is replaced and that has one.

    itself: the variable that has this text as its value; the value that it has without it takes the
        place of its name, nothing where it has none.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if is_replaced(name):
            return values.get(name, match[0])
        return values.get(name, "") if name == itself else match[0]

    return _REFERENCE.sub(value, text)


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Return the text with each `${NAME}` of `values` replaced, and no other."""
    return _REFERENCE.sub(lambda match: values.get(match[1], match[0]), text)


def uses_variables(text: str, *, itself: str = "") -> bool:
    """Return whether the text has a `${NAME}` that is replaced. `itself`: see `expand`."""
    return any(is_replaced(match[1]) or match[1] == itself for match in _REFERENCE.finditer(text))


def not_replaced(text: str, *, itself: str = "") -> list[str]:
    """Return what looks like a variable in a text and stays as it is: `$HOME`, `${OTHER}`. `itself`:
    see `expand`."""
    return [
        match[0]
        for match in _ANY.finditer(text)
        if match[1] is None or not (is_replaced(match[1]) or match[1] == itself)
    ]
