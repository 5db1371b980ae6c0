"""Write the table of compared strategies into docs/concepts/strategies.md."""

from __future__ import annotations

import re
from pathlib import Path

from muster.testing.strategies import CASES, Case

TARGET = Path(__file__).resolve().parent.parent / "docs" / "concepts" / "strategies.md"
BEGIN, END = "<!-- strategies table -->\n", "<!-- end of strategies table -->"


def generate() -> str:
    rows = [_row(case) for case in CASES if case.stopped_rank is None]
    table = "\n".join(
        ["| workers | `strategy` | tolerance | continued |", "| --- | --- | --- | --- |", *rows]
    )
    before, _, rest = TARGET.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}"


def _row(case: Case) -> str:
    said = re.sub(r"['\"]", "", str({"kind": "ddp", **case.strategy}))
    said = said.replace("True", "true").replace("False", "false")
    tolerance = f"{case.tolerance:g}" if case.tolerance else "equal"
    resumed = ("equal" if case.is_exact else "within it") if case.resumed else "not tried"
    if case.origin is not None:
        resumed = f"from `{next(c for c in CASES if c.name == case.origin).strategy['kind']}`"
    return f"| {case.world} | `{said}` | {tolerance} | {resumed} |"


if __name__ == "__main__":
    TARGET.write_text(generate())
