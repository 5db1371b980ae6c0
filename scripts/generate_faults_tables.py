"""Write the table of what trainings have survived into docs/concepts/checkpoints.md and its
translation."""

from __future__ import annotations

from pathlib import Path

from support.training.training_faults import FAULTS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "concepts"
TARGET = FOLDER / "checkpoints.md"
TRANSLATION = FOLDER / "checkpoints.zh-CN.md"
BEGIN, END = "<!-- faults table -->\n", "<!-- end of faults table -->"


def generate() -> str:
    rows = [(f.what, f.then, "agents" if f.on == "agents" else "workers") for f in FAULTS]
    return _with_table(TARGET, ("what happens", "what follows", "tried with real"), rows)


def translate() -> str:
    rows = [(f.what_zh, f.then_zh, "代理" if f.on == "agents" else "工作进程") for f in FAULTS]
    return _with_table(TRANSLATION, ("发生了什么", "随后", "用真实的什么试过"), rows)


def _with_table(page: Path, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    before, _, rest = page.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}"


TRANSLATED = {TRANSLATION: translate}
"""Further pages, and what makes each."""


if __name__ == "__main__":
    TARGET.write_text(generate())
    for path, make in TRANSLATED.items():
        path.write_text(make())
