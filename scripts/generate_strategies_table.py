"""Write the table of compared strategies into docs/concepts/strategies.md and its translation."""

from __future__ import annotations

import re
from pathlib import Path

from muster.document.train_config import TrainConfig
from support.training.strategies import CASES, Case

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "concepts"
TARGET = FOLDER / "strategies.md"
TRANSLATION = FOLDER / "strategies.zh-CN.md"
BEGIN, END = "<!-- strategies table -->\n", "<!-- end of strategies table -->"
HEAD = ("workers", "`strategy`", "optimizer", "tolerance", "continued")
DEFAULT_OPTIMIZER = TrainConfig.optimizer
CHINESE = {
    "workers": "工作进程",
    "optimizer": "优化器",
    "tolerance": "容差",
    "continued": "继续训练",
    "equal": "完全相同",
    "within it": "在容差内",
    "not tried": "未试",
    "from": "来自",
}


def generate() -> str:
    return _with_table(TARGET, {})


def translate() -> str:
    return _with_table(TRANSLATION, CHINESE)


def _with_table(page: Path, words: dict[str, str]) -> str:
    """words: English → those of the page."""
    rows = [_row(case, words) for case in CASES if case.stopped_rank is None]
    lines = [tuple(words.get(word, word) for word in HEAD), ("---",) * len(HEAD), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    before, _, rest = page.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}"


def _row(case: Case, words: dict[str, str]) -> tuple[str, ...]:
    said = re.sub(r"['\"]", "", str({"kind": "ddp", **case.strategy}))
    said = said.replace("True", "true").replace("False", "false")
    tolerance = f"{case.tolerance:g}" if case.tolerance else "equal"
    resumed = ("equal" if case.is_exact else "within it") if case.resumed else "not tried"
    resumed = words.get(resumed, resumed)
    if case.origin is not None:
        origin = next(c for c in CASES if c.name == case.origin)
        resumed = f"{words.get('from', 'from')} `{origin.strategy['kind']}`"
    optimizer = case.trainer.get("optimizer", DEFAULT_OPTIMIZER)
    tolerance = words.get(tolerance, tolerance)
    return str(case.world), f"`{said}`", f"`{optimizer}`", tolerance, resumed


TRANSLATED = {TRANSLATION: translate}
"""Further pages, and what makes each."""


if __name__ == "__main__":
    TARGET.write_text(generate())
    for path, make in TRANSLATED.items():
        path.write_text(make())
