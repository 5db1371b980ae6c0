"""No file and no folder grows beyond what one reads at a sitting; prints the lines of each part."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZES = runpy.run_path(str(ROOT / "scripts" / "sizes.py"))
LARGE = {
    "agent/muster_agent/shim/supervise.py": 772,
    "bench": 41,
    "migrations/versions": 30,
}
"""What was larger before there was a limit → its lines or modules. It may become smaller, except that each
change of the tables adds a migration."""


def test_no_file_and_no_folder_is_over_its_limit() -> None:
    texts = SIZES["read"](ROOT)
    print(SIZES["lines_by_part"](texts))
    found = SIZES["long_files"](texts) | SIZES["full_folders"](texts)
    found.pop("migrations/versions", None)
    grown = {name: size for name, size in found.items() if size > LARGE.get(name, 0)}
    assert grown == {}, "split them: see scripts/sizes.py"


def test_what_may_be_large_still_is() -> None:
    texts = SIZES["read"](ROOT)
    assert LARGE.keys() <= (SIZES["long_files"](texts) | SIZES["full_folders"](texts)).keys()
